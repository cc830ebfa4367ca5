// Each of these changes makes a test of this file fail: a commit for each call without a conversation; calls that are lost when
// the server is closed, or while the file cannot be written; a read that waits for such a file.
import { DatabaseSync } from "node:sqlite";
import { embedded } from "agentserve";
import { expect, it, onTestFinished } from "vitest";
import { UsageQueue } from "../../../src/engine/stored/usage-queue.ts";
import type { UsageRow } from "../../../src/engine/contract/usage.ts";
import { startTestServer } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";
import { newFile } from "../../harness/folders.ts";
import { meteredAgent, readItems, sumOf, toQuestion } from "./metered.ts";

async function open(path: string) {
  const server = await startTestServer("in process", {
    config: { agents: [meteredAgent("a")], backend: embedded({ path }) },
  });
  const commits = async (): Promise<number> => {
    const text: string = await (await server.send("/metrics", {})).text();
    return Number(/^agentserve_store_write_duration_seconds_count (\d+)$/m.exec(text)?.[1] ?? 0);
  };
  const say = (input: string, options: object = {}) => server.post("/agents/a/text", { input, options });
  return { server, close: server.close, commits, say };
}

it("stores the usage of calls without a conversation when the server is closed", async () => {
  const path = newFile();
  const first = await open(path);
  for (let n = 0; n < 20; n++) await first.say(toQuestion([1, 2]), { userId: `u${n % 3}` });
  await first.close();
  const second = await open(path);
  expect(await readItems(second.server, "a")).toMatchObject([{ calls: 20, inputTokens: 20, outputTokens: 40 }]);
});

it("needs fewer commits than calls without a conversation", async () => {
  const { server, say, commits } = await open(newFile());
  await say(toQuestion([1, 1]));
  const before = await commits();
  const calls = 200;
  await Promise.all(Array.from({ length: calls }, (_, n) => say(toQuestion([1, 1]), { userId: `u${n % 100}` })));
  expect(await readItems(server, "a")).toMatchObject([{ calls: calls + 1 }]);
  expect((await commits()) - before).toBeLessThan(calls / 2);
});

it("stores usage once the file is no longer locked, and answers meanwhile", async () => {
  const path = newFile();
  const { server, say } = await open(path);
  await say(toQuestion([1, 1]));
  expect(await readItems(server, "a")).toMatchObject([{ calls: 1 }]);
  const other = new DatabaseSync(path);
  onTestFinished(() => other.close());
  other.exec("begin immediate");
  expect(await say(toQuestion([2, 2]))).toMatchObject({ status: 200 });
  // It is read as it is stored.
  expect(await readItems(server, "a")).toMatchObject([{ calls: 1 }]);
  other.exec("commit");
  await until(async () => (await readItems(server, "a"))[0].calls === 2, "the second call to be stored");
});

const toRow = (n: number): UsageRow => ({ agentId: "a", userId: `u${n}`, day: 1, model: "m/m", ...sumOf([1, 1]) });

it("writes 256 rows of usage at once, one write after the other, and adds up what waits", async () => {
  const writes: number[][] = [];
  let finish = (): void => {};
  const queue = new UsageQueue({
    write(rows) {
      writes.push(rows.map(({ calls }) => calls));
      return new Promise((resolve) => (finish = () => resolve(true)));
    },
    onLost: () => {},
  });
  for (let n = 0; n < 255; n++) queue.add(toRow(n));
  expect(writes).toEqual([]);
  queue.add(toRow(255));
  expect(writes).toEqual([Array.from({ length: 256 }, () => 1)]);
  for (let n = 0; n < 600; n++) queue.add(toRow(n % 300));
  expect(writes).toHaveLength(1);
  finish();
  await until(() => writes.length === 2, "the second write");
  expect(writes[1]).toEqual(Array.from({ length: 300 }, () => 2));
  finish();
  await queue.flush();
});

it("keeps at most 10,000 rows of usage while nothing can be written, and reports those that are lost", async () => {
  let isOpen = false;
  const written: number[] = [];
  const lost: number[] = [];
  const queue = new UsageQueue({
    async write(rows) {
      if (isOpen) written.push(rows.length);
      return isOpen;
    },
    onLost: (calls) => lost.push(calls),
  });
  for (let n = 0; n < 12_000; n++) queue.add(toRow(n));
  await queue.flush();
  for (let n = 0; n < 12_000; n++) queue.add(toRow(n));
  expect([written, lost]).toEqual([[], []]);
  isOpen = true;
  await queue.flush();
  expect(written).toEqual([10_000]);
  expect(lost).toHaveLength(1);
});
