import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { startTestServer, targets } from "../../harness/server.ts";
import { as, trusting } from "./world.ts";

let isBroken = true;
const workflows = [
  defineWorkflow({ id: "w" })
    .andThen({ id: "make", execute: () => "made" })
    .andThen({ id: "ask", execute: ({ resumeData, suspend }) => resumeData ?? suspend("ok?", { secret: 1 }) }),
  defineWorkflow({ id: "broken" }).andThen({
    id: "s",
    execute: () => {
      if (isBroken) throw new Error("not yet");
      return 1;
    },
  }),
];

/** Who sees the values of an execution that ada started (`mayInspect`, docs/auth.md). `null`: the caller may not read it. */
const oracle = [
  // provider, ownership, target, caller, sees values
  [true, true, "dev", "ada", true],
  [true, true, "start", "ada", true],
  [true, true, "in process", "ada", true],
  [true, true, "dev", "bob", null],
  [true, true, "start", "bob", null],
  [true, false, "dev", "ada", true],
  [true, false, "start", "ada", true],
  [true, false, "dev", "bob", true],
  [true, false, "start", "bob", false],
  [true, false, "in process", "bob", false],
  [false, false, "dev", undefined, true],
  [false, false, "start", undefined, false],
  [false, false, "in process", undefined, false],
] as const;

it.each(targets)("shows the values of steps only to those who may inspect the execution (%s)", async (target) => {
  for (const [hasProvider, ownership, own, caller, sees] of oracle) {
    if (own !== target) continue;
    const auth = hasProvider ? { auth: { ...trusting, ownership } } : {};
    const server = await startTestServer(target, { config: { workflows, ...auth } });
    const by = (user: string | undefined) => (user === undefined ? {} : as(user));
    const owner = hasProvider ? "ada" : undefined;
    // Without a provider, a userId in the body is a claim of the client and gives no rights.
    const options = { executionId: "e", ...(!hasProvider && { userId: "ada" }) };
    await server.post("/workflows/w/execute", { input: {}, options }, by(owner));
    const { status, body } = await server.get("/workflows/w/executions/e/steps", by(caller));
    const title = JSON.stringify([hasProvider, ownership, target, caller]);
    expect(status, title).toBe(sees === null ? 404 : 200);
    if (sees !== null) {
      const [make, ask] = body.data.items;
      expect(["input" in make, "output" in make, "data" in ask.suspension], title).toEqual([sees, sees, sees]);
      expect([make.status, ask.suspension.reason], title).toEqual(["success", "ok?"]);
    }
  }
});

it("shows the caller of a retry in the state only to those who may inspect the execution", async () => {
  for (const [target, ada, bob] of [
    ["dev", true, true],
    ["start", true, false],
  ] as const) {
    const server = await startTestServer(target, { config: { workflows, auth: trusting } });
    isBroken = true;
    await server.post("/workflows/broken/execute", { input: {}, options: { executionId: "e" } }, as("ada"));
    const path = "/workflows/broken/executions/e";
    expect((await server.get(`${path}/state`, as("ada"))).body.data).not.toHaveProperty("retriedBy");
    isBroken = false;
    await server.post(`${path}/retry`, undefined, as("eve"));
    const seenBy = async (init: object) => (await server.get(`${path}/state`, init)).body.data.retriedBy;
    const by = { user: { id: "eve" }, userId: "eve" };
    expect([await seenBy(as("ada")), await seenBy(as("bob")), await seenBy({})]).toEqual([
      ada ? by : undefined,
      bob ? by : undefined,
      undefined,
    ]);
    expect(JSON.stringify((await server.get("/workflows/broken/executions", as("bob"))).body)).not.toContain("eve");
  }
});

it("asks authorize about execution.inspect, and the answer beats the mode", async () => {
  for (const target of ["dev", "start"] as const) {
    const asked: unknown[] = [];
    const server = await startTestServer(target, {
      config: {
        workflows,
        auth: trusting,
        authorize: ({ action, user, execution }) => {
          if (action === "execution.inspect") asked.push([user?.["id"], execution?.executionId]);
          return action !== "execution.inspect" || user?.["id"] === "auditor";
        },
      },
    });
    await server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } }, as("ada"));
    const sees = async (user: string): Promise<boolean> =>
      "output" in (await server.get("/workflows/w/executions/e/steps", as(user))).body.data.items[0];
    expect([await sees("ada"), await sees("auditor"), await sees("bob")], target).toEqual([true, true, false]);
    expect(asked).toEqual([
      ["auditor", "e"],
      ["bob", "e"],
    ]);
  }
});
