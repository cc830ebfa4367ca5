import { expect, it } from "vitest";
import { Changes } from "../../src/engine/runs/changes.ts";
import type { ExecutionState } from "../../src/engine/execution.ts";

const toState = (id: string, epoch = 0, userId?: string): ExecutionState => ({
  execution: { id, workflowId: "w", input: "{}", context: {}, startAt: 0, steps: [], userId },
  status: "running",
  epoch,
});

it("keeps a thousand changes for a reader that does not read, and ends when it misses one", async () => {
  const changes = new Changes();
  const { signal } = new AbortController();
  const reader = changes.open({}, signal);
  const ofAnn = changes.open({ userId: "ann" }, signal);
  for (let n = 0; n < 1_000; n++) changes.publish(toState(`e${n}`));
  expect((await reader.next()).value).toMatchObject({ executionId: "e0" });
  for (let n = 0; n < 2; n++) changes.publish(toState(`more-${n}`));
  expect(await reader.next()).toEqual({ done: true, value: undefined });
  changes.publish(toState("hers", 0, "ann")); // those of others have not filled her buffer
  expect((await ofAnn.next()).value).toMatchObject({ executionId: "hers" });
});

it("ends the changes of a reader that leaves while it waits", async () => {
  const changes = new Changes();
  const leave = new AbortController();
  const next = changes.open({}, leave.signal).next();
  leave.abort();
  expect(await next).toEqual({ done: true, value: undefined });
});

it("drops a change that is published again, and one that is older than the last", async () => {
  const changes = new Changes({ isRepeated: true });
  const reader = changes.open({}, new AbortController().signal);
  for (const epoch of [1, 1, 0, 2]) changes.publish(toState("e", epoch));
  changes.publish(toState("last"));
  const seen = [await reader.next(), await reader.next(), await reader.next()];
  expect(seen.map(({ value }) => value.executionId)).toEqual(["e", "e", "last"]);
});
