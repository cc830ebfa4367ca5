// The place of an execution in its group while it waits for a time, for an event or for its next attempt.
import { defineWorkflow } from "agentserve";
import { beforeEach, expect, it } from "vitest";
import { withBounds } from "../../harness/bounds.ts";
import { createGates } from "../../harness/gates.ts";
import { describeInProcess, type TestServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";

let gates = createGates();
let began: string[] = [];
beforeEach(() => {
  gates = createGates();
  began = [];
});
const work = (id: string, isGated = true) => ({
  id,
  execute: async ({ executionId }: { executionId: string }): Promise<unknown> => {
    const name = `${executionId} ${id}`;
    began.push(name);
    if (isGated) await gates.pass(name);
    return null;
  },
});
const inlineSleepMs = 400;
const concurrency = { limit: 1 };
const key = ({ executionId }: { executionId: string }): string => executionId;
const sleeps = defineWorkflow({ id: "sleeps", concurrency })
  .andThen(work("one"))
  .andSleep({ id: "nap", duration: inlineSleepMs + 200 })
  .andThen(work("two"));
const waits = defineWorkflow({ id: "waits", concurrency })
  .andThen(work("one"))
  .andWaitFor({ id: "wait", event: "go", key })
  .andThen(work("two"));
/** Its first code runs after a wait. */
const first = defineWorkflow({ id: "first", concurrency })
  .andWaitFor({ id: "wait", event: "go", key })
  .andThen(work("one"));
const naps = defineWorkflow({ id: "naps", concurrency })
  .andThen(work("one", false))
  .andSleep({ id: "nap", duration: inlineSleepMs / 2 })
  .andThen(work("two", false));
const retries = defineWorkflow({ id: "retries", concurrency }).andThen({
  id: "pay",
  retry: { attempts: 2, delay: 300 },
  execute: ({ attempt, executionId }) => {
    began.push(`${executionId} ${attempt}`);
    if (attempt === 1) throw new Error("not yet");
    return attempt;
  },
});
const free = defineWorkflow({ id: "free" }).andThen({ id: "work", execute: () => "free" });
const workflows = [sleeps, waits, first, naps, retries, free];

let count = 0;
const newIds = (...names: string[]): string[] => {
  const prefix = `g${++count}`;
  return names.map((name) => `${prefix}.${name}`);
};
const begin = async (server: TestServer, workflow: string, executionId: string): Promise<void> => {
  const body = { input: {}, options: { executionId } };
  const { status } = await server.post(`/workflows/${workflow}/execute`, body, {
    headers: { prefer: "respond-async" },
  });
  expect(status).toBe(202);
};
const reach = (server: TestServer, workflow: string, id: string, status: string) =>
  eventually(async () =>
    expect((await server.get(`/workflows/${workflow}/executions/${id}/state`)).body.data.status).toBe(status),
  );
const go = (server: TestServer, id: string) => server.post("/events", { name: "go", key: id });
/** Runs a workflow without a limit: what is beyond a limit had time to begin by then. */
const pause = async (server: TestServer) =>
  expect((await server.post("/workflows/free/execute", { input: {} })).body.data.result).toBe("free");

describeInProcess("concurrency and waits", withBounds({ inlineSleepMs }, { workflows }), (server) => {
  it("gives the place of a sleeping execution to the next one, and queues it when it wakes", async () => {
    const [a, b] = newIds("a", "b") as [string, string];
    for (const id of [a, b]) await begin(server, "sleeps", id);
    await gates.reached(`${a} one`);
    await pause(server);
    expect(began).toEqual([`${a} one`]);
    gates.open(`${a} one`);
    await gates.reached(`${b} one`); // while a sleeps, or after
    await reach(server, "sleeps", a, "running"); // it has slept
    await pause(server);
    expect(began).toEqual([`${a} one`, `${b} one`]);
    gates.open(`${b} one`);
    await gates.reached(`${a} two`);
    await reach(server, "sleeps", b, "running");
    await pause(server);
    expect(began).toEqual([`${a} one`, `${b} one`, `${a} two`]);
    for (const id of [a, b]) gates.open(`${id} two`);
    for (const id of [a, b]) await reach(server, "sleeps", id, "completed");
    expect(began.at(-1)).toBe(`${b} two`);
  });

  it("queues executions that events wake behind the others, in the order of the events", async () => {
    const [a, b, c, d] = newIds("a", "b", "c", "d") as [string, string, string, string];
    for (const id of [a, b]) {
      await begin(server, "waits", id);
      gates.open(`${id} one`);
      await reach(server, "waits", id, "suspended");
    }
    for (const id of [c, d]) await begin(server, "waits", id);
    await gates.reached(`${c} one`);
    for (const id of [b, a]) {
      await go(server, id);
      await reach(server, "waits", id, "running");
    }
    await pause(server);
    gates.open(`${c} one`);
    await gates.reached(`${d} one`);
    await pause(server);
    expect(began.slice(2)).toEqual([`${c} one`, `${d} one`]);
    gates.open(`${d} one`);
    await gates.reached(`${b} two`);
    await pause(server);
    expect(began.slice(4)).toEqual([`${b} two`]);
    for (const id of [b, a]) gates.open(`${id} two`);
    for (const id of [b, a]) await reach(server, "waits", id, "completed");
    expect(began.slice(4)).toEqual([`${b} two`, `${a} two`]);
    for (const id of [c, d]) await server.post(`/workflows/waits/executions/${id}/cancel`, {});
  });

  it("cancels a woken execution that waits for its turn", async () => {
    const [a, b, c] = newIds("a", "b", "c") as [string, string, string];
    await begin(server, "waits", a);
    gates.open(`${a} one`);
    await reach(server, "waits", a, "suspended");
    await begin(server, "waits", b);
    await gates.reached(`${b} one`);
    await go(server, a);
    await reach(server, "waits", a, "running");
    await begin(server, "waits", c);
    expect((await server.post(`/workflows/waits/executions/${a}/cancel`, {})).status).toBe(200);
    gates.open(`${b} one`);
    await gates.reached(`${c} one`);
    expect(began).toEqual([`${a} one`, `${b} one`, `${c} one`]);
    gates.open(`${c} one`);
    for (const id of [b, c]) await reach(server, "waits", id, "suspended");
    for (const id of [b, c]) await server.post(`/workflows/waits/executions/${id}/cancel`, {});
  });

  it("keeps the place of an execution through a sleep of up to inlineSleepMs", async () => {
    const [a, b] = newIds("a", "b") as [string, string];
    for (const id of [a, b]) await begin(server, "naps", id);
    for (const id of [a, b]) await reach(server, "naps", id, "completed");
    expect(began).toEqual([`${a} one`, `${a} two`, `${b} one`, `${b} two`]);
  });

  it("keeps the place of an execution through a retry delay", async () => {
    const [a, b] = newIds("a", "b") as [string, string];
    for (const id of [a, b]) await begin(server, "retries", id);
    for (const id of [a, b]) await reach(server, "retries", id, "completed");
    expect(began).toEqual([`${a} 1`, `${a} 2`, `${b} 1`, `${b} 2`]);
  });

  it("begins a wait without a place in the group, and needs one to continue", async () => {
    const [a, b, c] = newIds("a", "b", "c") as [string, string, string];
    for (const id of [a, b, c]) await begin(server, "first", id);
    for (const id of [a, b, c]) await reach(server, "first", id, "suspended");
    await go(server, b);
    await gates.reached(`${b} one`);
    await go(server, a);
    await reach(server, "first", a, "running");
    await pause(server);
    expect(began).toEqual([`${b} one`]);
    for (const id of [a, b]) gates.open(`${id} one`);
    for (const id of [a, b]) await reach(server, "first", id, "completed");
    await server.post(`/workflows/first/executions/${c}/cancel`, {});
  });
});
