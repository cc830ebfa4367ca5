import { expect, it, onTestFinished } from "vitest";
import { createFolder } from "../harness/folders.ts";
import { together } from "../harness/waiting.ts";
import { ServedLives, type Reply } from "./kills/process.ts";

const count = 200;
const ids = Array.from({ length: count }, (_, index) => `e${index + 1}`);
/** Requests at the same time. */
const beside = 16;

it(`ends each of ${count} failed executions once, when they are retried and the process is killed in the middle`, async () => {
  const lives = new ServedLives(createFolder("retries"));
  onTestFinished(() => lives.close());
  const { log } = lives;
  const settings = { pace: 1, slow: "c", slowMs: 500, fails: 0, again: 0, broken: true };
  const headers = { prefer: "respond-async" };
  const retry = (id: string) => lives.ask(`/workflows/long/executions/${id}/retry`, { method: "POST", headers });
  const listed = async (status: string): Promise<string[]> => {
    const { body } = (await lives.ask(`/workflows/long/executions?status=${status}&limit=${count}`))!;
    return body.data.items.map(({ executionId }: { executionId: string }) => executionId);
  };
  const allAre = async (status: string): Promise<void> => {
    await expect.poll(async () => (await listed(status)).length, { message: status }).toBe(count);
  };

  await lives.start();
  await together(beside, ids, async (executionId) => {
    const json = { input: { n: 1 }, options: { executionId, context: { settings } } };
    const reply = await lives.ask("/workflows/long/execute", { method: "POST", json, headers });
    expect(reply!.status).toBe(202);
  });
  await allAre("error");
  for (const id of ids) lives.mend(id);

  // Killed once 80 of them were answered: some have ended by then, some are at work, and some were not asked for yet.
  const answered = new Map<string, Reply>();
  await together(beside, ids, async (id) => {
    if (lives.isOver(1)) return;
    const reply = await retry(id);
    if (reply) answered.set(id, reply);
    if (answered.size === 80) await lives.kill();
  });
  const atWork = log.atWorkAtTheEndOf(1);
  await lives.start();

  // A retry that was answered has taken effect. Others have or have not.
  const failed = new Set(await listed("error"));
  for (const [id, { status }] of answered) expect([id, status, failed.has(id)]).toEqual([id, 202, false]);
  await together(beside, ids, async (id) => {
    const { status, body } = (await retry(id))!;
    const error = `Execution ${id} has not failed`;
    if (failed.has(id)) expect([id, status]).toEqual([id, 202]);
    else expect([id, status, body.error]).toEqual([id, 409, error]);
  });
  await allAre("completed");

  let again = 0;
  await together(beside, ids, async (id) => {
    const begun = log.of(id).filter(({ what }) => what === "begin");
    const runs = (path: string) => begun.filter((line) => line.path === path).map(({ life }) => life);
    // Recorded before the retry: once.
    expect([id, runs("a"), runs("b")]).toEqual([id, [1], [1]]);
    // After it: once, and once more if it was in flight when the process was killed. One step is in flight at a time.
    const [first, ...rest] = runs("weak");
    const repeated = [rest, runs("c"), runs("d")].filter(({ length }) => length !== 1);
    again += repeated.length;
    expect([id, first, repeated.length > 1]).toEqual([id, 1, false]);
    for (const lines of repeated) expect([id, lines]).toEqual([id, [1, 2]]);
    const stream = (await lives.open(`/workflows/long/executions/${id}/stream?after=0`))!;
    const events: string[] = [];
    for await (const frame of stream.frames) events.push(/"type":"([^"]*)"/.exec(frame)![1]!);
    const step = ["step-start", "step-complete"];
    expect([id, events]).toEqual([
      id,
      [
        "workflow-start",
        ...step,
        ...step,
        "step-start",
        "workflow-error",
        "step-complete",
        ...step,
        ...step,
        "workflow-complete",
        "workflow-result",
      ],
    ]);
  });
  expect(log.complaints).toEqual([]);
  // Otherwise it would show nothing.
  expect(failed.size).toBeGreaterThan(0);
  expect(atWork).toBeGreaterThan(0);
  expect(again).toBeGreaterThan(0);
  console.log(`retries: ${answered.size} answered before the kill, ${atWork} at work, ${failed.size} retried after it`);
});
