import { expect, it } from "vitest";
import { KeptCalls, maxBytes, maxTurns } from "../../../src/agents/model-calls/kept-calls.ts";
import { systemClock } from "../../../src/core/clock.ts";

const key = { agentId: "a", userId: "ada", conversationId: "c" };
const model = { provider: "p", modelId: "m" };
const asked = (bytes = 10): any => ({
  prompt: Array.from({ length: Math.ceil(bytes / 60_000) }, () => ({
    role: "user",
    content: [{ type: "text", text: "x".repeat(Math.min(bytes, 60_000)) }],
  })),
});
const indexesOf = (calls: KeptCalls, answerId: string) => calls.find(key, answerId)?.map(({ index }) => index);
const bytesOf = (calls: KeptCalls, answers: Iterable<string>) => {
  let bytes = 0;
  for (const id of answers) for (const call of calls.find(key, id) ?? []) bytes += call.bytes;
  return bytes;
};

it("keeps the model calls of the last turns: the one that is idle for longest is removed first", () => {
  const calls = new KeptCalls(systemClock);
  for (let turn = 0; turn < maxTurns; turn++) calls.begin(key, `t${turn}`, model, asked()).end(undefined);
  calls.begin(key, "t0", model, asked());
  calls.begin(key, "new", model, asked());
  expect(indexesOf(calls, "t0")).toEqual([0, 1]);
  expect(indexesOf(calls, "t1")).toBeUndefined();
  expect(indexesOf(calls, "t2")).toEqual([0]);
});

it("keeps a bounded number of bytes of model calls: removes whole turns first, then the calls of one turn", () => {
  const calls = new KeptCalls(systemClock);
  const answers = Array.from({ length: 40 }, (_, turn) => `t${turn}`);
  for (const id of answers) calls.begin(key, id, model, asked(2_000_000)).end(undefined);
  expect(bytesOf(calls, answers)).toBeLessThanOrEqual(maxBytes);
  expect(indexesOf(calls, "t39")).toEqual([0]);
  expect(indexesOf(calls, "t0")).toBeUndefined();
  for (let index = 0; index < 40; index++) calls.begin(key, "one", model, asked(2_000_000)).end(undefined);
  expect(indexesOf(calls, "t39")).toBeUndefined();
  expect(bytesOf(calls, ["one"])).toBeLessThanOrEqual(maxBytes);
  const kept = indexesOf(calls, "one")!;
  expect(kept.at(-1)).toBe(39);
  expect(kept.length).toBeGreaterThan(10);
  expect(kept[0]).toBe(40 - kept.length);
});

const answer = (text: string): any => ({
  content: [{ type: "text", text }],
  finishReason: { unified: "stop", raw: "stop" },
  usage: { inputTokens: { total: 1 }, outputTokens: { total: undefined } },
});

it("does not count answers that come after their conversation was deleted", () => {
  const calls = new KeptCalls(systemClock);
  const deleted = { ...key, conversationId: "deleted" };
  const late = Array.from({ length: 600 }, (_, turn) => calls.begin(deleted, `t${turn}`, model, asked()));
  calls.remove(deleted);
  calls.begin(key, "kept", model, asked()).end(undefined);
  for (const call of late) {
    call.answer(answer("y".repeat(60_000)));
    call.end(undefined);
  }
  expect(indexesOf(calls, "kept")).toEqual([0]);
});

it("counts the bytes of an answer when its call ends, and not after its turn has left", () => {
  const calls = new KeptCalls(systemClock);
  const gone = calls.begin(key, "gone", model, asked());
  calls.remove(key);
  for (let turn = 0; turn < 600; turn++) {
    const call = calls.begin(key, `t${turn}`, model, asked());
    call.answer(answer("y".repeat(60_000)));
    call.end(undefined);
  }
  const answers = Array.from({ length: 600 }, (_, turn) => `t${turn}`);
  expect(bytesOf(calls, answers)).toBeLessThanOrEqual(maxBytes);
  gone.answer(answer("z"));
  gone.end(undefined);
  expect(calls.find(key, "gone")).toBeUndefined();
  expect(calls.find(key, "t599")![0]!.toView(true)).toMatchObject({
    usage: { inputTokens: 1, outputTokens: null, totalTokens: 1 },
    parts: [{ type: "text" }],
  });
});

it("keeps model calls with values that are not JSON, and prompts of any shape", () => {
  const calls = new KeptCalls(systemClock);
  const circular: any = { role: "user", content: [] };
  circular.content.push(circular);
  const deep = { role: "user", content: JSON.parse(`${"[".repeat(500)}1${"]".repeat(500)}`) };
  const odd = {
    role: "user",
    content: [{ url: new URL("https://a.test/"), n: 1n, f: () => 1, bytes: new Uint8Array(3) }],
  };
  const call = calls.begin(key, "t", model, { prompt: [circular, deep, odd] } as any);
  call.end("Aborted");
  const { prompt, error } = call.toView(true);
  expect(error).toBe("Aborted");
  expect(prompt).toHaveLength(3);
  for (const message of prompt!.slice(0, 2)) expect(JSON.stringify(message)).toContain('"truncated":true');
  expect(prompt![2]).toMatchObject({ content: [{ url: "https://a.test/", n: "1", bytes: "AAAA" }] });
});
