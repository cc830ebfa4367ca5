import { describe, expect, it } from "vitest";
import { defineAgent, defineSchedule, defineTool, defineWorkflow, type Authorize, type Config } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { by, expense, trusting } from "../auth/authorize/world.ts";
import { eventually } from "../harness/waiting.ts";
import { openConsole, type Answered, type ConsoleServer } from "./world.ts";

const mark = { "x-agentserve-console": "1" };
const executions = "/workflows/expense/executions";
const start = { input: { amount: 5 } };
const ada = by("ada").headers;
const idsOf = ({ body }: Answered): string[] =>
  (body.data.items as { executionId: string }[]).map(({ executionId }) => executionId);

/** Starts an execution that waits. */
async function begin({ ask }: ConsoleServer, headers: Record<string, string>): Promise<string> {
  const { body } = await ask("/workflows/expense/execute", { headers, json: start });
  return body.data.executionId;
}

describe("a session of the console", () => {
  it.each<[string, Config]>([
    ["no rule", { auth: trusting }],
    ["ownership", { auth: { ...trusting, ownership: true } }],
    ["opt-out mode and ownership", { auth: { ...trusting, ownership: true, defaultPrivate: true, webSockets: true } }],
    ["an authorize that refuses everything", { auth: trusting, authorize: () => false }],
    [
      "an authorize that fails",
      {
        auth: trusting,
        authorize: () => {
          throw new Error("no");
        },
      },
    ],
    ["an authorize of the workflow", { auth: trusting, workflows: [guarded(() => false)] }],
  ])("a console session sees and does everything under %s", async (_, config) => {
    let isOpen = true; // for Ada's own request
    const { authorize } = config;
    const world: Config = {
      workflows: [expense],
      schedules: [defineSchedule({ id: "nightly", cron: "0 3 1 1 *", workflow: "expense", input: { amount: 7 } })],
      ...config,
      ...(authorize && { authorize: (asked) => isOpen || authorize(asked) }),
    };
    const console = await openConsole(world);
    const session = await console.signIn();
    const owner = config.workflows ? session : ada;
    const id = await begin(console, owner);
    isOpen = false;
    const { ask } = console;
    const headers = { ...session, ...mark };
    expect(idsOf(await ask(executions, { headers }))).toEqual([id]);
    expect(idsOf(await ask("/executions", { headers }))).toEqual([id]);
    const steps = await ask(`${executions}/${id}/steps`, { headers });
    expect([steps.status, steps.text]).toEqual([200, expect.stringContaining('"amount":5')]);
    const state = await ask(`${executions}/${id}/state?include=access`, { headers });
    expect(state.body.data).toMatchObject({ mayFork: true, mayResume: true });
    const forked = await ask(`${executions}/${id}/fork`, { headers, json: { input: { amount: 6 } } });
    expect([forked.status, forked.body.data.status]).toEqual([200, "suspended"]);
    const resumed = await ask(`${executions}/${id}/resume`, { headers, json: { resumeData: { approved: true } } });
    expect(resumed.body.data.result).toEqual({ approved: true, by: "console" });
    for (const command of ["trigger", "pause", "resume"])
      expect((await ask(`/schedules/nightly/${command}`, { headers, method: "POST" })).status).toBeLessThan(300);
    expect((await ask("/metrics", { headers })).status).toBe(200);
    expect((await ask("/console/session", { headers })).body.data).toMatchObject({ canAct: true });
  });

  it("a console session decides about the tool calls of all users", async () => {
    const pay = defineTool({ description: "", inputSchema: v.object({}), needsApproval: true, execute: () => "paid" });
    const model = () => scriptedModel([{ toolCalls: [{ toolName: "pay", input: {} }] }, "Done"]);
    for (const authorize of [undefined, (({ action }) => action === "agent.call") satisfies Authorize]) {
      const agents = [defineAgent({ id: "payer", instructions: "", model: model(), tools: { pay } })];
      const { ask, signIn } = await openConsole({ auth: trusting, agents, ...(authorize && { authorize }) });
      const options = { conversationId: "c" };
      await ask("/agents/payer/text", { headers: ada, json: { input: "Pay", options } });
      const session = await signIn();
      const { body } = await ask("/approvals", { headers: session });
      const [{ approvalId }] = body.data.items;
      expect((await ask("/approvals", { headers: by("bob").headers })).body.data.items).toEqual([]);
      const decided = await ask(`/approvals/${approvalId}`, { headers: session, json: { approved: true } });
      expect(decided.status).toBe(200);
    }
  });

  it("a console session sends events to the executions of all users, and reads all log records, with ownership", async () => {
    const waits = defineWorkflow({ id: "waits" })
      .andThen({ id: "say", execute: ({ logger }) => logger.info("A record of Ada") })
      .andWaitFor({ id: "paid", event: "paid" });
    const { ask, signIn } = await openConsole({ auth: { ...trusting, ownership: true }, workflows: [waits] });
    const { body } = await ask("/workflows/waits/execute", { headers: ada, json: { input: {} } });
    const id = body.data.executionId;
    const session = await signIn();
    const records = async (headers: Record<string, string>) =>
      (await ask(`/api/logs?executionId=${id}&limit=1000`, { headers })).body.data.length;
    expect([await records(by("eve").headers), (await records(session)) > 0]).toEqual([0, true]);
    await ask("/events", { headers: session, json: { name: "paid" } });
    await eventually(async () => {
      const { data } = (await ask(`/workflows/waits/executions/${id}/state`, { headers: session })).body;
      expect(data.status).toBe("completed");
    });
  });

  it.each<[string, Config]>([
    ["ownership", { auth: { ...trusting, ownership: true } }],
    ["an authorize that allows everything", { auth: trusting, authorize: () => true }],
  ])("a user of the provider cannot be called console, under %s", async (_, config) => {
    const console = await openConsole({ workflows: [expense], ...config });
    const { ask } = console;
    const id = await begin(console, await console.signIn());
    const reserved = { success: false, error: 'Invalid token: the user id "console" is reserved' };
    for (const headers of [by("console").headers, { ...by("console").headers, ...mark }])
      for (const path of ["/executions", "/metrics", "/console/session", `${executions}/${id}/steps`]) {
        const { status, body } = await ask(path, { headers });
        expect([path, status, body]).toEqual([path, 401, reserved]);
      }
    // An open route takes such a caller for an anonymous one.
    const isSeen = config.authorize !== undefined;
    expect((await ask(`${executions}/${id}/state`, { headers: by("console").headers })).status).toBe(
      isSeen ? 200 : 404,
    );
    expect((await ask("/console/api/routes", { headers: by("console").headers })).status).toBe(401);
    expect((await ask("/executions", { headers: by("Console").headers })).status).toBe(200);
  });

  it("the header x-agentserve-console gives no rights to a caller", async () => {
    const { ask } = await openConsole({ auth: { ...trusting, defaultPrivate: true }, authorize: () => false });
    for (const headers of [mark, { ...mark, ...ada }]) {
      for (const path of ["/agents", "/metrics", "/api/logs", "/console/session"]) {
        const status = (await ask(path, { headers })).status;
        expect([path, status]).toEqual([path, "authorization" in headers ? 403 : 401]);
      }
    }
  });
});

function guarded(authorize: Authorize) {
  return defineWorkflow({
    id: "expense",
    input: v.object({ amount: v.number() }),
    resumeSchema: v.object({ approved: v.boolean() }),
    authorize,
  }).andThen({
    id: "approve",
    execute: ({ input, resumeData, resumedBy, suspend }) =>
      resumeData
        ? { approved: resumeData.approved, by: resumedBy?.userId ?? null }
        : suspend("Approve?", { amount: input.amount }),
  });
}

describe.each(["dev", "start"] as const)("requests with the mark of the console (%s)", (mode) => {
  const without =
    (...refused: string[]): Authorize =>
    (asked) =>
      !refused.includes(asked.action);

  it("requests of the console page need console.view, and console.act unless they only read", async () => {
    const cases: [Authorize, view: number, act: number, unmarked: number][] = [
      [without(), 200, 200, 200],
      [without("console.act"), 200, 403, 200],
      [without("console.view"), 403, 403, 200],
      [without("console.view", "console.act"), 403, 403, 200],
      [without("workflow.execute"), 200, 403, 403],
    ];
    for (const [authorize, view, act, unmarked] of cases) {
      const { ask } = await openConsole({ auth: trusting, authorize, workflows: [expense], console: true }, { mode });
      const headers = { ...ada, ...mark };
      const statusOf = async (path: string, asked: object) => (await ask(path, asked)).status;
      expect(await statusOf("/executions", { headers })).toBe(view);
      expect(await statusOf("/workflows", { headers })).toBe(view);
      expect(await statusOf("/workflows", { method: "HEAD", headers })).toBe(view);
      expect(await statusOf("/workflows/expense/execute", { headers, json: start })).toBe(act);
      expect(await statusOf("/workflows/expense/execute", { headers: ada, json: start })).toBe(unmarked);
      const session = await ask("/console/session", { headers });
      expect(session.status).toBe(view);
      if (view === 200) {
        const canAct = authorize({ action: "console.act", user: { id: "ada" } });
        expect(session.body.data).toMatchObject({ user: { id: "ada" }, canAct, isSignedInByLink: false, mode });
      } else expect(session.body).toEqual({ success: false, error: "Forbidden" });
    }
  });

  it("requests of the console page need console.act for custom routes, also inside the host's middleware", async () => {
    for (const cors of [undefined, false] as const) {
      let runs = 0;
      const { ask } = await openConsole(
        {
          auth: trusting,
          authorize: without("console.act"),
          console: true,
          server: cors === false ? { cors } : {},
          configureApp: (app) => void app.all("/mine", () => ({ runs: ++runs })),
        },
        { mode },
      );
      const headers = { ...ada, ...mark };
      expect((await ask("/mine", { headers })).status).toBe(200);
      expect((await ask("/mine", { headers, json: {} })).status).toBe(403);
      expect((await ask("/mine", { method: "DELETE", headers })).status).toBe(403);
      expect(runs).toBe(1);
    }
  });

  it("authorize is not asked about requests of the console page while the console is off", async () => {
    const asked: string[] = [];
    const authorize: Authorize = ({ action }) => asked.push(action) > 0;
    const { ask } = await openConsole({ auth: trusting, authorize, workflows: [expense], console: false }, { mode });
    const headers = { ...ada, ...mark };
    expect((await ask("/workflows/expense/execute", { headers, json: start })).status).toBe(200);
    expect((await ask("/console/session", { headers })).status).toBe(404);
    expect(asked).toEqual(["workflow.execute"]);
  });
});

describe("a console that is read-only", () => {
  const message = { success: false, error: "The console is read-only" };

  it.each<[string, Config]>([
    ["without a provider", {}],
    ["under a provider", { auth: { ...trusting, ownership: true } }],
    ["under authorize", { auth: trusting, authorize: () => true }],
  ])("a read-only console shows everything and changes nothing %s", async (_, config) => {
    const { ask, signIn } = await openConsole({ ...config, workflows: [expense], console: { readOnly: true } });
    const session = await signIn(); // the exchange of the link changes nothing of the server
    const marked = { ...session, ...mark };
    expect((await ask("/console/session", { headers: marked })).body.data).toMatchObject({
      canAct: false,
      readOnly: true,
    });
    expect((await ask("/executions", { headers: marked })).status).toBe(200);
    expect((await ask("/console/api/problem", { headers: marked })).status).toBe(200);
    // A session without the mark is a session of the console all the same.
    for (const headers of [marked, session]) {
      for (const path of ["/workflows/expense/execute", "/events", "/schedules/x/trigger", "/nope"])
        expect([path, await ask(path, { headers, json: start })]).toMatchObject([path, { status: 403, body: message }]);
      expect((await ask("/agents/a/conversations/c", { method: "DELETE", headers })).body).toEqual(message);
    }
    expect((await ask("/executions", { headers: session })).body.data.items).toEqual([]);
    // Other clients act as before.
    expect((await ask("/workflows/expense/execute", { headers: ada, json: start })).status).toBe(200);
    expect((await ask("/workflows/expense/execute", { headers: { ...ada, ...mark }, json: start })).body).toEqual(
      message,
    );
  });

  it("a read-only console lets the page exchange its link", async () => {
    const { ask, server } = await openConsole({ auth: trusting, authorize: () => false, console: { readOnly: true } });
    const json = { token: server.sessions!.link };
    expect((await ask("/console/api/session", { headers: mark, json })).status).toBe(200);
  });
});
