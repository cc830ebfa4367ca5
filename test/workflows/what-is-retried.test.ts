import { AgentError, defineWorkflow, ServeError, type ServeErrorOptions } from "agentserve";
import { expect, it } from "vitest";
import { describeInProcess } from "../harness/server.ts";

/** The error of a step, and by hand from the rule: the number of attempts at a step that allows two. */
const rows: [title: string, attempts: 1 | 2, error: () => unknown][] = [
  ...[400, 401, 402, 403, 404, 409, 410, 413, 418, 422, 426, 428, 431, 451, 499].map(refused(1)),
  ...[408, 425, 429, 500, 502, 503, 504, 507, 599].map(refused(2)),
  ...[408, 425, 429, 500, 503].map(refused(1, { retry: false })),
  ...[400, 404, 409, 422].map(refused(2, { retry: true })),
  ["an Error", 2, () => new Error("no")],
  ["a TypeError", 2, () => new TypeError("no")],
  ["an error with a status that is not a ServeError", 2, () => Object.assign(new Error("no"), { status: 404 })],
  ["an error with a `retry` that is not a ServeError", 2, () => Object.assign(new Error("no"), { retry: false })],
  ["a string", 2, () => "no"],
  ["undefined", 2, () => undefined],
  ["an AgentError", 2, () => new AgentError(502, "no")],
  ["an AgentError that is not retried", 1, () => new AgentError(502, "no", { retry: false })],
];
function refused(attempts: 1 | 2, options?: ServeErrorOptions): (status: number) => (typeof rows)[number] {
  const how = options ? ` with retry: ${options.retry}` : "";
  return (status) => [`${status}${how}`, attempts, () => new ServeError(status, "no", options)];
}

const ran = new Map<string, number>();
const failing = defineWorkflow({ id: "failing" }).andThen({
  id: "fails",
  retry: { attempts: 2 },
  execute({ input, executionId }) {
    ran.set(executionId, (ran.get(executionId) ?? 0) + 1);
    throw rows[input["row"] as number]![2]();
  },
});

const values: [title: string, make: () => unknown][] = [
  ["a BigInt", () => ({ n: 1n })],
  ["a cycle", toCycle],
  ["a Date", () => new Date(0)],
  ["5 MB", () => "x".repeat(5_000_000)],
];
function toCycle(): unknown {
  const cycle: Record<string, unknown> = {};
  return Object.assign(cycle, { self: cycle });
}
const returning = defineWorkflow({ id: "returning" }).andThen({
  id: "returns",
  retry: { attempts: 3 },
  execute({ input, executionId }) {
    ran.set(executionId, (ran.get(executionId) ?? 0) + 1);
    return values[input["row"] as number]![1]() as never;
  },
});

describeInProcess("a step that may run again and returns", { workflows: [returning] }, (server) => {
  it.for(values.map(([title], row) => ({ title, row })))("runs a step once that returns $title", async ({ row }) => {
    const executionId = `value-${row}`;
    await server.post("/workflows/returning/stream", { input: { row }, options: { executionId } });
    expect(ran.get(executionId)).toBe(1);
    const { data } = (await server.get(`/workflows/returning/executions/${executionId}/steps`)).body;
    expect(data.items).toMatchObject([{ status: "error", attempts: [{ attempt: 1 }] }]);
  });
});

describeInProcess("a step that may run twice and throws", { workflows: [failing] }, (server) => {
  it.for(rows.map(([title, attempts], row) => ({ title, attempts, row })))(
    "runs a step that throws $title $attempts times",
    async ({ attempts, row }) => {
      const executionId = `row-${row}`;
      await server.post("/workflows/failing/stream", { input: { row }, options: { executionId } });
      expect(ran.get(executionId)).toBe(attempts);
    },
  );

  it("logs the error that is not retried as the failure of the step, without a warning", async () => {
    await server.post("/workflows/failing/stream", { input: { row: 0 }, options: { executionId: "logged" } });
    const { body } = await server.get("/api/logs?executionId=logged");
    expect(body.data).toMatchObject([{ level: "error", message: "Step failed", data: { attempt: 1 } }]);
  });
});

it("a ServeError says whether it is retried", () => {
  expect(new ServeError(404, "no").retry).toBe(false);
  expect(new ServeError(429, "no").retry).toBe(true);
  expect(new ServeError(404, "no", { retry: true }).retry).toBe(true);
  const error = new AgentError(502, "no", { retry: false });
  expect(error).toBeInstanceOf(ServeError);
  expect([error.name, error.retry]).toEqual(["AgentError", false]);
});
