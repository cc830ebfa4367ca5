// A step type that only this folder has: one file (and-fallback.ts) and one method of the chain (fallback-workflow.ts).
import { andThen, defineWorkflow } from "agentserve";
import { createClock, createServer } from "agentserve/testing";
import { expect, it, onTestFinished } from "vitest";
import * as v from "valibot";
import { createGates } from "../../harness/gates.ts";
import { runHere } from "../../harness/in-process.ts";
import { describeServer } from "../../harness/server.ts";
import { as, createCalls, toLine, toRow, trusting } from "../steps/world.ts";
import { andFallback } from "./and-fallback.ts";
import { withFallback } from "./fallback-workflow.ts";
import { createOrder } from "./order.ts";

/** The steps that have run, and those that fail now: `<execution>/<step>`. */
const ran: string[] = [];
const failing = new Set<string>();
const gates = createGates();

const order = createOrder(async (step, executionId) => {
  const job = `${executionId}/${step}`;
  ran.push(job);
  if (step === "charge" && executionId === "paused") await gates.pass(executionId);
  if (failing.has(job)) throw new Error(`${step} is broken`);
});
const ranOf = (executionId: string): string[] =>
  ran.flatMap((job) => (job.startsWith(`${executionId}/`) ? job.slice(executionId.length + 1) : []));
/** Fails these steps of an execution from now on, and no others. */
function fail(executionId: string, ...steps: string[]): void {
  for (const job of failing) if (job.startsWith(`${executionId}/`)) failing.delete(job);
  for (const step of steps) failing.add(`${executionId}/${step}`);
}

const refuses = (id: string) =>
  andThen({
    id,
    execute(): never {
      throw new Error(`${id} is broken`);
    },
  });
const asking = withFallback(
  defineWorkflow({ id: "asking", resumeSchema: v.object({ number: v.number() }) }),
).andFallback({
  id: "pay",
  step: refuses("charge"),
  fallback: andThen({ id: "invoice", execute: ({ resumeData, suspend }) => resumeData ?? suspend("Which number?") }),
});
const looping = defineWorkflow({ id: "looping" }).andForEach({
  id: "each",
  items: () => ["paid", "billed", "lost"],
  onError: "collect",
  step: andFallback({
    id: "pay",
    step: andThen({
      id: "charge",
      execute({ data }) {
        if (data !== "paid") throw new Error(`no charge: ${String(data)}`);
        return data;
      },
    }),
    fallback: andThen({
      id: "invoice",
      execute({ data }) {
        if (data === "lost") throw new Error(`no invoice: ${String(data)}`);
        return data;
      },
    }),
  }),
});

const config = { workflows: [order, asking, looping] };
describeServer("a step type of one file and one method", { config, only: ["dev"] }, (server) => {
  const callsOf = (executionId: string) => createCalls(server, "order", executionId);
  const rowsOf = async (executionId: string) => (await callsOf(executionId).steps()).map(toRow);
  const linesOf = async (executionId: string) => (await callsOf(executionId).steps()).map(toLine);
  const goods = { goods: 3 };
  const reserved = ["reserve andThen success [1]", {}, goods];

  it("is described by GET /workflows/:id with its traits and the steps inside it", async () => {
    const { steps } = (await server.get("/workflows/order")).body.data;
    expect(steps[1]).toEqual({
      id: "pay",
      name: "pay",
      type: "andFallback",
      shape: "race",
      purpose: "Takes the money, or sends a bill",
      steps: [
        expect.objectContaining({ id: "card", type: "andWorkflow", steps: [expect.anything(), expect.anything()] }),
        { id: "invoice", name: "invoice", type: "andThen", shape: "leaf", purpose: "" },
      ],
    });
  });

  it("completes with its first step, and never begins the second one", async () => {
    const calls = callsOf("whole");
    expect((await calls.execute()).body.data.result).toEqual({ paidBy: "charge" });
    expect(await rowsOf("whole")).toEqual([
      reserved,
      ["pay andFallback success []", goods, "charge"],
      ["card andWorkflow success in pay []", goods, "charge"],
      ["card/check andThen success in card [1]", goods, "check"],
      ["card/charge andThen success in card [1]", "check", "charge"],
      ["ship andThen success [1]", "charge", { paidBy: "charge" }],
    ]);
    const { events } = await server.get(`${calls.path}/stream`);
    const own = events.filter(({ from }) => from === "pay");
    expect(own.map(({ type, stepType, status }) => [type, stepType, status])).toEqual([
      ["step-start", "andFallback", undefined],
      ["step-complete", "andFallback", "success"],
    ]);
  });

  const billed = [
    reserved,
    ["pay andFallback success []", goods, "invoice"],
    ["card andWorkflow error in pay []", goods, undefined],
    ["card/check andThen success in card [1]", goods, "check"],
    ["card/charge andThen error in card [1!]", "check", undefined],
  ];

  it("continues after a retry where it failed: steps that have completed or were given up do not run again", async () => {
    const calls = callsOf("retried");
    fail("retried", "charge", "invoice");
    expect((await calls.execute()).status).toBe(500);
    expect(await rowsOf("retried")).toEqual([
      reserved,
      ["pay andFallback error []", goods, undefined],
      ...billed.slice(2),
      ["invoice andThen error in pay [1!]", goods, undefined],
    ]);

    fail("retried", "ship");
    expect((await calls.post("retry")).status).toBe(500);
    const invoiced = ["invoice andThen success in pay [1! 1]", goods, "invoice"];
    expect(await rowsOf("retried")).toEqual([...billed, invoiced, ["ship andThen error [1!]", "invoice", undefined]]);

    fail("retried");
    expect((await calls.post("retry")).body.data.result).toEqual({ paidBy: "invoice" });
    const shipped = ["ship andThen success [1! 1]", "invoice", { paidBy: "invoice" }];
    expect(await rowsOf("retried")).toEqual([...billed, invoiced, shipped]);
    expect(ranOf("retried")).toEqual(["reserve", "check", "charge", "invoice", "invoice", "ship", "ship"]);
  });

  it("is copied by a fork that begins after it, and runs again in a fork that begins with it", async () => {
    const calls = callsOf("original");
    fail("original", "charge");
    expect((await calls.execute()).body.data.result).toEqual({ paidBy: "invoice" });
    const all = [
      ...billed,
      ["invoice andThen success in pay [1]", goods, "invoice"],
      ["ship andThen success [1]", "invoice", { paidBy: "invoice" }],
    ];
    expect(await rowsOf("original")).toEqual(all);

    const fork = (fromStep: string, executionId: string) => calls.post("fork", { fromStep, options: { executionId } });
    expect((await fork("ship", "copied")).body.data).toMatchObject({ result: { paidBy: "invoice" } });
    expect(await rowsOf("copied")).toEqual(all);
    expect(ranOf("copied")).toEqual(["ship"]);

    expect((await fork("pay", "again")).body.data).toMatchObject({ result: { paidBy: "charge" } });
    expect(await linesOf("again")).toEqual([
      "reserve andThen success [1]",
      "pay andFallback success []",
      "card andWorkflow success in pay []",
      "card/check andThen success in card [1]",
      "card/charge andThen success in card [1]",
      "ship andThen success [1]",
    ]);
    expect(ranOf("again")).toEqual(["check", "charge", "ship"]);
  });

  it("waits inside for a person, and continues with the answer", async () => {
    const calls = createCalls(server, "asking", "asked");
    expect((await calls.execute()).body.data.suspension).toMatchObject({ stepId: "invoice", reason: "Which number?" });
    expect((await calls.steps()).map(toLine)).toEqual([
      "pay andFallback suspended []",
      "charge andThen error in pay [1!]",
      "invoice andThen suspended in pay [1]",
    ]);
    const resumed = await calls.post("resume", { resumeData: { number: 7 } });
    expect(resumed.body.data).toMatchObject({ status: "completed", result: { number: 7 } });
  });

  it("continues with its second step after a suspension by request in which its first one failed", async () => {
    const calls = callsOf("paused");
    fail("paused", "charge");
    const ended = calls.execute();
    await gates.reached("paused");
    expect((await calls.post("suspend", { reason: "lunch" })).status).toBe(200);
    await ended;
    gates.open("paused");
    await expect.poll(() => linesOf("paused")).toContain("card/charge andThen waiting in card [1!]");
    expect(await linesOf("paused")).toContain("pay andFallback waiting []");
    expect((await calls.post("resume")).body.data.result).toEqual({ paidBy: "invoice" });
    expect((await rowsOf("paused")).slice(0, 5)).toEqual(billed);
  });

  it("runs in each item of a loop, which collects only the failures of both of its steps", async () => {
    const calls = createCalls(server, "looping", "many");
    const result = [
      { status: "success", value: "paid" },
      { status: "success", value: "billed" },
      { status: "error", error: "no invoice: lost" },
    ];
    expect((await calls.execute()).body.data.result).toEqual(result);
    expect((await calls.steps()).map(toRow)).toEqual([["each andForEach success [1]", {}, result]]);
    expect((await calls.steps("?under=each")).map(toLine)).toEqual([
      "each/0 item success in each []",
      "each/0/pay andFallback success in each/0 []",
      "each/0/charge andThen success in each/0/pay [1]",
      "each/1 item success in each []",
      "each/1/pay andFallback success in each/1 []",
      "each/1/charge andThen error in each/1/pay [1!]",
      "each/1/invoice andThen success in each/1/pay [1]",
      "each/2 item error in each []",
      "each/2/pay andFallback error in each/2 []",
      "each/2/charge andThen error in each/2/pay [1!]",
      "each/2/invoice andThen error in each/2/pay [1!]",
    ]);
  });

  it("is shown by agentserve runs show with its name, its status, its values and the steps inside it", async () => {
    fail("shown", "charge");
    await callsOf("shown").execute();
    const { stdout } = await runHere(["runs", "show", "shown", "--url", server.url], { env: process.env });
    const [, tree] = stdout.split("\n\n");
    expect(tree!.replaceAll(/ {2}· {2}\d+ \w+/g, "").split("\n")).toEqual([
      "✓ reserve  andThen",
      "    in    {}",
      '    out   {"goods":3}',
      "✓ pay  andFallback",
      '    in    {"goods":3}',
      "    out   invoice",
      "  ✗ card  andWorkflow  ·  error",
      '      in    {"goods":3}',
      "    ✓ check  andThen",
      '        in    {"goods":3}',
      "        out   check",
      "    ✗ charge  andThen  ·  error",
      "        in    check",
      "        error charge is broken  attempt 1",
      "  ✓ invoice  andThen",
      '      in    {"goods":3}',
      "      out   invoice",
      "✓ ship  andThen",
      "    in    invoice",
      '    out   {"paidBy":"invoice"}',
      "",
    ]);
  });
});

it("a chain with one more method refuses a step with the id of another one, as the other methods do", () => {
  expect(() => withFallback(order).andFallback({ id: "last", step: refuses("a"), fallback: refuses("ship") })).toThrow(
    "Workflow order: two steps have the id ship",
  );
});

it("a loop shows the failure of the second step of a fallback, also if both steps have failed in the same millisecond", async () => {
  const server = createServer({ workflows: [looping], auth: trusting }, { clock: createClock() }); // it stands still
  onTestFinished(() => server.close());
  const ask = async (path: string, init: RequestInit = {}): Promise<any> => {
    const headers = { ...as("ada").headers, "content-type": "application/json" };
    const request = new Request(`http://localhost/workflows/looping/${path}`, { ...init, headers });
    return (await server.fetch(request)).json();
  };
  const body = JSON.stringify({ input: {}, options: { executionId: "many" } });
  await ask("execute", { method: "POST", body });
  const [each] = (await ask("executions/many/steps?path=each")).data.items;
  expect(each.output[2]).toEqual({ status: "error", error: "no invoice: lost" });
});
