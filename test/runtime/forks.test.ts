import { expect, it } from "vitest";
import * as v from "valibot";
import { defineWorkflow, type Config, type ServeError } from "agentserve";
import { by, trusting } from "../auth/authorize/world.ts";
import { createGates } from "../harness/gates.ts";
import { open } from "./open.ts";

/** A payment that a person approves. The result has the user and the key of each payment. */
const payment = defineWorkflow({ id: "payment", input: v.object({ cents: v.number() }) })
  .andThen({ id: "approve", execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Pay?")) })
  .andThen({
    id: "pay",
    execute: ({ data, context, idempotencyKey }) => ({
      cents: data.cents,
      by: context.get("userId") ?? null,
      name: (context.get("user") as { name?: string } | undefined)?.name ?? null,
      key: idempotencyKey,
    }),
  });
const ada = { id: "ada", name: "Ada" };
const forbidding: Config = { workflows: [payment], auth: { ...trusting, ownership: true } };

/** Starts a payment of Ada and approves it. */
async function pay({ runtime }: ReturnType<typeof open>, executionId: string): Promise<void> {
  const handle = await runtime.start(payment, { cents: 5 }, { executionId, as: ada });
  await handle.result();
  await handle.resume(true);
  expect(await handle.result()).toMatchObject({
    status: "completed",
    result: { by: "ada", key: `${executionId}/pay` },
  });
}
const refusalOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => "no error",
    ({ status, message }: ServeError) => [status, message],
  );

it("forks an execution from code for the user of the original, also where HTTP callers may not", async () => {
  const server = open(forbidding);
  await pay(server, "one");
  const { executions } = server.runtime;
  const forked = await executions.fork("one", { fromStep: "pay" });
  expect(await forked.result()).toMatchObject({
    result: { cents: 5, by: "ada", name: "Ada", key: `${forked.executionId}/pay` },
  });
  expect((await forked.state()).forkedFrom).toBe("one");
  const other = await executions.fork("one", { input: { cents: 7 }, executionId: "two" });
  expect([other.executionId, (await other.result()).status]).toEqual(["two", "suspended"]);
  expect(await refusalOf(executions.fork("one", { executionId: "two" }))).toEqual([
    409,
    "Execution two already exists",
  ]);
});

it("refuses forks from code with the errors of the route", async () => {
  const gates = createGates();
  const slow = defineWorkflow({ id: "slow" }).andThen({ id: "wait", execute: () => gates.pass("slow") });
  const server = open({ ...forbidding, workflows: [payment, slow] });
  await pay(server, "one");
  const running = await server.runtime.start(slow, {}, { executionId: "slow" });
  const { executions } = server.runtime;
  const fork = executions.fork as (...call: unknown[]) => Promise<unknown>;
  expect(await refusalOf(fork("slow"))).toEqual([409, "Execution slow is running"]);
  gates.open("slow");
  await running.result();
  expect(await refusalOf(fork("nobody"))).toEqual([404, "Execution nobody not found"]);
  expect(await refusalOf(fork(undefined))).toEqual([400, "executions.fork(): expected the id of an execution"]);
  expect(await refusalOf(fork("one", { fromStep: "nowhere" }))).toEqual([
    400,
    "Execution one cannot be forked from step nowhere",
  ]);
  expect(await refusalOf(fork("one", { input: { cents: "x" } }))).toEqual([
    400,
    expect.stringMatching(/^Input validation failed: cents: /),
  ]);
  expect(await refusalOf(fork("one", { executionId: "child:x" }))).toEqual([
    400,
    "Invalid options: executionId: expected an id that does not begin with child: or schedule:",
  ]);
  expect(await refusalOf(fork("one", "pay"))).toEqual([400, expect.stringMatching(/^Invalid options: /)]);
});

it("finds only the executions of its user when the runtime of a custom route forks", async () => {
  const server = open({
    ...forbidding,
    configureApp(app) {
      app.post("/repeat/:id", async (event) => {
        const handle = await event.context.runtime.executions.fork(event.context.params!["id"]!, { fromStep: "pay" });
        return handle.result();
      });
    },
  });
  await pay(server, "one");
  const repeat = async (user: string) => {
    const request = new Request("http://localhost/repeat/one", { method: "POST", ...by(user) });
    const response = await server.fetch(request);
    return [response.status, await response.json()];
  };
  expect(await repeat("ada")).toMatchObject([200, { status: "completed", result: { cents: 5, by: "ada" } }]);
  expect(await repeat("bob")).toEqual([404, { success: false, error: "Execution one not found" }]);
});

it("starts the fork of a step once, however often the step runs", async () => {
  const ids: string[][] = [];
  const repair = defineWorkflow({ id: "repair", input: v.object({ of: v.array(v.string()) }) }).andThen({
    id: "all",
    retry: { attempts: 3 },
    async execute({ data, runtime, attempt }) {
      const forks = [];
      for (const id of data.of) forks.push(await runtime.executions.fork(id, { fromStep: "pay" }));
      ids.push(forks.map(({ executionId }) => executionId));
      if (attempt < 3) throw new Error("again");
      return (await Promise.all(forks.map((fork) => fork.result()))).map(({ status }) => status);
    },
  });
  const server = open({ ...forbidding, workflows: [payment, repair] });
  for (const id of ["one", "two"]) await pay(server, id);
  const outcome = await server.runtime.execute(repair, { of: ["one", "two"] }, { as: ada });
  expect(outcome).toMatchObject({ result: ["completed", "completed"] });
  expect(ids[1]).toEqual(ids[0]);
  expect(ids[2]).toEqual(ids[0]);
  expect(new Set(ids[0]).size).toBe(2);
  expect((await server.runtime.executions.list({ workflowId: "payment" })).items).toHaveLength(4);
  // A step acts for the user of its execution.
  const foreign = await server.runtime.execute(repair, { of: ["one"] }, { as: { id: "bob" } });
  expect(foreign).toMatchObject({ status: "error", error: "Execution one not found" });
});
