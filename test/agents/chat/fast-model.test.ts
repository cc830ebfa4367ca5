// Seen to fail: a text that loses deltas when they are joined, deltas of two texts that are joined, a model that is read to its
// end for a reader that has stopped.
import { ReadableStream } from "node:stream/web";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent } from "agentserve";
import { expect, it } from "vitest";
import { startTestServer } from "../../harness/server.ts";

const usage = {
  inputTokens: { total: 5, noCache: 5, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 7, text: 7, reasoning: 0 },
};
const words = Array.from({ length: 500 }, (_, n) => `word${n} `);
let sent = 0;
async function* toParts(): AsyncGenerator<LanguageModelV4StreamPart> {
  yield { type: "stream-start", warnings: [] };
  for (const id of ["1", "2"]) {
    yield { type: "text-start", id };
    for (const delta of words) {
      sent++;
      yield { type: "text-delta", id, delta };
    }
    yield { type: "text-end", id };
  }
  yield { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage };
}
const model: LanguageModelV4 = {
  specificationVersion: "v4",
  provider: "test",
  modelId: "fast",
  supportedUrls: {},
  doGenerate: () => Promise.reject(new Error("not called")),
  doStream: async () => ({ stream: ReadableStream.from(toParts()) as never }),
};
const agent = defineAgent({ id: "a", instructions: "x", model });

it.each([undefined, "c"])(
  "joins deltas of a model that has its whole answer at once (conversation: %s)",
  async (id) => {
    const server = await startTestServer("in process", { config: { agents: [agent] } });
    const { events } = await server.post("/agents/a/stream", { input: "go", options: { conversationId: id } });
    const deltas = (events as any[]).filter(({ type }) => type === "text-delta");
    expect(Map.groupBy(deltas, (delta) => delta.id).size).toBe(2);
    for (const some of Map.groupBy(deltas, (delta) => delta.id).values())
      expect(some.map(({ delta }) => delta).join("")).toBe(words.join(""));
    expect(deltas.length).toBeLessThan(500);
  },
);

it("reads a fast model no further than its reader takes, without a conversation", async () => {
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  sent = 0;
  const body = JSON.stringify({ input: "go" });
  const headers = { "content-type": "application/json" };
  const response = await server.send("/agents/a/stream", { method: "POST", body, headers });
  const reader = response.body!.getReader();
  await reader.read();
  for (let last = -1; last !== sent;) {
    last = sent;
    for (let turns = 0; turns < 50; turns++) await nextTurn();
  }
  expect(sent).toBeLessThan(1_000);
  await reader.cancel();
});
