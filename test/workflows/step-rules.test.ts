import { setTimeout as sleep } from "node:timers/promises";
import { andAll, andRace, andThen, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it, vi } from "vitest";
import { startTestServer } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";

/** Runs the workflow `w` as the execution `e`, and returns the server with the answer and the state. */
async function run(workflow: unknown) {
  const server = await startTestServer("dev", { config: { workflows: [workflow as never] } });
  const answer = await server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
  const state = (await server.get("/workflows/w/executions/e/state")).body.data;
  return { server, answer, state };
}
const w = defineWorkflow({ id: "w" });
const fails = (id: string) => andThen({ id, execute: () => Promise.reject(new Error(id)) });

it("branches into nothing: andAll without steps, and andWhen whose condition is false", async () => {
  const { state } = await run(
    w.andAll({ id: "none", steps: [] }).andWhen({
      id: "no",
      condition: () => false,
      step: andRace({ id: "r", steps: [andAll({ id: "x", steps: [] })] }),
    }),
  );
  expect(state).toMatchObject({ status: "completed", result: [] });
});

it("suspends a step that catches its own suspension", async () => {
  const { answer } = await run(
    w.andThen({
      id: "s",
      async execute({ suspend, resumeData }) {
        try {
          return resumeData ?? (await suspend("caught?"));
        } catch {
          return "swallowed";
        }
      },
    }),
  );
  expect(answer.body.data).toMatchObject({ status: "suspended", suspension: { reason: "caught?" } });
});

it("aborts the signal of a step that times out, and tries it again with the same idempotencyKey", async () => {
  const seen: unknown[] = [];
  const { state } = await run(
    w.andThen({
      id: "slow",
      timeout: 30,
      retry: { attempts: 2, delay: 5, backoff: 2 },
      async execute({ attempt, idempotencyKey, signal }) {
        if (attempt === 2) return [attempt, idempotencyKey];
        await new Promise((resolve) => signal.addEventListener("abort", resolve));
        seen.push(idempotencyKey, (signal.reason as Error).message);
        return "too late";
      },
    }),
  );
  expect(state).toMatchObject({ status: "completed", result: [2, "e/slow"] });
  expect(seen).toEqual(["e/slow", "Step slow timed out after 30 ms"]);
});

it("cancels a step that never settles", async () => {
  const aborted = vi.fn();
  const started = Promise.withResolvers<void>();
  const hangs = w.andThen({
    id: "hangs",
    execute: ({ signal }) => {
      signal.addEventListener("abort", aborted);
      started.resolve();
      return new Promise(() => {});
    },
  });
  const server = await startTestServer("start", { config: { workflows: [hangs] } });
  const waiting = server.post("/workflows/w/execute", { input: {}, options: { executionId: "e" } });
  await started.promise;
  await server.post("/workflows/w/executions/e/cancel", {});
  expect((await waiting).status).toBe(409);
  await eventually(() => expect(aborted).toHaveBeenCalledTimes(1)); // on Restate, soon after the answer
});

it.each([
  [
    "inputSchema of a step",
    w.andThen({ id: "s", inputSchema: v.object({ n: v.number() }), execute: () => 1 } as never),
  ],
  ["outputSchema of a step", w.andThen({ id: "s", outputSchema: v.string(), execute: () => 1 } as never)],
  [
    "suspendSchema of a workflow",
    defineWorkflow({ id: "w", suspendSchema: v.string() }).andThen({
      id: "s",
      execute: ({ suspend }) => suspend("x", 1 as never),
    }),
  ],
  [
    "result schema of a workflow",
    defineWorkflow({ id: "w", result: v.string() }).andThen({ id: "s", execute: () => 1 }),
  ],
])("fails a value that does not match the %s", async (name, workflow) => {
  const what = { input: "s: invalid input: n: ", output: "s: invalid output: ", suspend: "s: invalid suspend data: " };
  const { state } = await run(workflow);
  const expected = what[name.split("Schema")[0] as keyof typeof what] ?? "invalid result: ";
  expect(state).toMatchObject({ status: "error", error: expect.stringContaining(expected) });
});

it("checks resume data by the schema of the step, before that of its workflow", async () => {
  const { server } = await run(
    defineWorkflow({ id: "w", resumeSchema: v.string() }).andThen({
      id: "s",
      resumeSchema: v.number(),
      execute: ({ resumeData, suspend }) => resumeData ?? suspend("How many?"),
    }),
  );
  const resume = (resumeData: unknown) => server.post("/workflows/w/executions/e/resume", { resumeData });
  expect((await resume("two")).status).toBe(400);
  expect((await resume(2)).body.data).toMatchObject({ status: "completed", result: 2 });
});

it("logs an andTap that fails, which changes nothing", async () => {
  const { state, server } = await run(w.andTap({ id: "t", execute: () => Promise.reject(new Error("tapped")) }));
  expect(state).toMatchObject({ status: "completed", result: {} });
  const data = { error: new Error("tapped"), stepId: "t", executionId: "e", workflowId: "w" };
  expect(server.logs).toMatchObject([{ level: "error", message: "Step failed", data }]);
  const suspends = (context: unknown): void => (context as { suspend(): void }).suspend();
  expect((await run(w.andTap({ id: "t", execute: suspends }))).state.status).toBe("completed");
});

it("fails an execution whose condition throws", async () => {
  const condition = (): boolean => {
    throw new Error("unknowable");
  };
  const { state } = await run(w.andWhen({ id: "c", condition, step: andThen({ id: "s", execute: () => 1 }) }));
  expect(state).toMatchObject({ status: "error", error: "unknowable" });
});

it("aborts the signal of a step that lost a race, or whose sibling failed, and drops its value", async () => {
  const aborted: string[] = [];
  const hangs = (id: string) =>
    andThen({
      id,
      execute: ({ signal }) =>
        new Promise<string>((resolve) =>
          signal.addEventListener("abort", () => {
            aborted.push(id);
            resolve("late");
          }),
        ),
    });
  const winner = andThen({ id: "winner", execute: () => "won" });
  const race = await run(w.andRace({ id: "r", steps: [hangs("loser"), winner] }));
  expect(race.state).toMatchObject({ status: "completed", result: "won" });
  const all = await run(w.andAll({ id: "a", steps: [hangs("sibling"), fails("bad")] }));
  expect(all.state).toMatchObject({ status: "error", error: "bad" });
  expect(aborted).toEqual(["loser", "sibling"]);
});

it("lets a parked step of andRace neither win nor fail, and fails a race only when all fail", async () => {
  const asks = andThen({ id: "asks", execute: ({ resumeData, suspend }) => resumeData ?? suspend("?") });
  const parked = await run(w.andRace({ id: "r", steps: [asks, fails("f")] }));
  expect(parked.state).toMatchObject({ status: "suspended", suspension: { stepId: "asks" } });
  const won = await run(w.andRace({ id: "r", steps: [asks, andThen({ id: "x", execute: () => "x" })] }));
  expect(won.state).toMatchObject({ status: "completed", result: "x" });
  const { promise: hasFailed, resolve } = Promise.withResolvers<void>();
  const one = andThen({ id: "one", execute: () => (setImmediate(resolve), Promise.reject(new Error("one"))) });
  const two = andThen({ id: "two", execute: () => hasFailed.then(() => Promise.reject(new Error("two"))) });
  const lost = await run(w.andRace({ id: "r", steps: [one, two] }));
  expect(lost.state).toMatchObject({ status: "error", error: "two" });
});

it("retries a step as its workflow says", async () => {
  const { server, state } = await run(
    defineWorkflow({ id: "w", retry: { attempts: 3 } }).andThen({
      id: "s",
      execute({ attempt }) {
        if (attempt < 3) throw new Error(`attempt ${attempt}`);
        return attempt;
      },
    }),
  );
  expect(state).toMatchObject({ status: "completed", result: 3 });
  const { events } = await server.get("/workflows/w/executions/e/stream");
  expect(events.find(({ type }) => type === "step-complete")).toMatchObject({ from: "s", attempt: 3 });
});

it("logs a warning for each failed attempt that is retried, and an error for the last one", async () => {
  const { server } = await run(
    w.andThen({
      id: "s",
      retry: { attempts: 3, delay: 2, backoff: 3 },
      execute: ({ attempt }) => Promise.reject(new Error(`attempt ${attempt}`)),
    }),
  );
  const { body } = await server.get("/api/logs?executionId=e");
  expect(body.data).toMatchObject([
    { level: "warn", message: "Step attempt failed", data: { attempt: 1, attempts: 3, delayMs: 2 } },
    { level: "warn", message: "Step attempt failed", data: { attempt: 2, attempts: 3, delayMs: 6 } },
    { level: "error", message: "Step failed", data: { attempt: 3 } },
  ]);
});

it("logs no retry of a step when another branch has won", async () => {
  const { server, state } = await run(
    defineWorkflow({ id: "w", retry: { attempts: 3 } }).andRace({
      id: "race",
      steps: [
        andThen({ id: "loser", execute: ({ signal }) => sleep(600_000, undefined, { signal }) }),
        andThen({ id: "winner", execute: () => sleep(1, "won") }),
      ],
    }),
  );
  expect(state).toMatchObject({ status: "completed", result: "won" });
  await eventually(async () => {
    const { body } = await server.get("/api/logs?executionId=e");
    const steps = body.data.filter(({ stepId }: { stepId?: string }) => stepId !== undefined);
    expect(steps).toMatchObject([{ level: "debug", message: "Step aborted", stepId: "loser" }]);
  });
});
