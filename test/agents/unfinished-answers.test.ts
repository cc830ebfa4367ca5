import type { LanguageModelV4, LanguageModelV4FinishReason, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import type { LanguageModel } from "ai";
import { expect, it } from "vitest";
import { describeServer } from "../harness/server.ts";

const usage = {
  inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 1, text: 1, reasoning: 0 },
};
const begun: LanguageModelV4StreamPart[] = [
  { type: "stream-start", warnings: [] },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: '{"a":1}' },
];
const said: LanguageModelV4StreamPart[] = [...begun, { type: "text-end", id: "t" }];
const finish = (finishReason: LanguageModelV4FinishReason): LanguageModelV4StreamPart => {
  return { type: "finish", finishReason, usage };
};
const call: LanguageModelV4StreamPart = { type: "tool-call", toolCallId: "c", toolName: "none", input: "{}" };

/** Answers each call with the same parts. */
const replay = (parts: LanguageModelV4StreamPart[]): LanguageModelV4 => scriptedModel(Array(100).fill(parts));
/** The same model with an older interface. In version 2, a finish reason and the usage are plain. */
const older = (specificationVersion: "v2" | "v3", parts: unknown[]): Exclude<LanguageModel, string> => {
  const model = { ...replay(parts as LanguageModelV4StreamPart[]), specificationVersion };
  return model as unknown as Exclude<LanguageModel, string>; // the parts are those of the version
};

const cut: Record<string, Exclude<LanguageModel, string>> = {
  "no-finish": replay(said),
  "open-text": replay(begun),
  "no-parts": replay([]),
  "no-reason": replay([...said, finish({ unified: "other", raw: undefined })]),
  "tool-call": replay([{ type: "stream-start", warnings: [] }, call]),
  "third-version": older("v3", [...said, finish({ unified: "other", raw: undefined })]),
};
const whole: Record<string, [model: Exclude<LanguageModel, string>, finishReason: string]> = {
  stop: [replay([...said, finish({ unified: "stop", raw: undefined })]), "stop"],
  "other-reason": [replay([...said, finish({ unified: "other", raw: "pause" })]), "other"],
  "second-version": [
    older("v2", [...said, { type: "finish", finishReason: "other", usage: { inputTokens: 1, outputTokens: 1 } }]),
    "other",
  ],
};
const agents = [...Object.entries(cut), ...Object.entries(whole).map(([id, [model]]) => [id, model] as const)].map(
  ([id, model]) => defineAgent({ id, instructions: "Answer", model, maxRetries: 0 }),
);

const body = { input: [{ role: "user", content: "Hi" }], schema: { type: "object" } };
const streams = ["stream", "stream-object", "chat"];
const endpoints = ["text", "object", ...streams];

describeServer(
  "a model that does not say that its answer is complete",
  { config: { agents }, only: ["dev", "start"] },
  (server) => {
    const isDev = server.target === "dev";

    it.for(Object.keys(cut))("reports an answer without a finish reason as an error: %s", async (id) => {
      for (const endpoint of endpoints) {
        const { status, body: plain, events } = await server.post(`/agents/${id}/${endpoint}`, body);
        const last = status === 200 ? events.at(-1) : plain;
        const message = last.error ?? last.errorText;
        expect([endpoint, status === 200 ? last.type : status, message]).toEqual([
          endpoint,
          status === 200 ? "error" : 502,
          "Model call failed",
        ]);
        if (endpoint !== "chat" || status !== 200)
          expect(last.detail).toEqual(
            isDev ? expect.stringMatching(/without a finish reason|has no finish reason/) : undefined,
          );
        expect(events.filter(({ type }) => ["finish", "object"].includes(type))).toEqual([]);
      }
      const logged = JSON.stringify(server.logs.filter(({ data }) => data?.["agentId"] === id));
      expect(logged).toMatch(/without a finish reason|has no finish reason/);
    });

    it.for(Object.keys(whole))("takes an answer with a finish reason for whole: %s", async (id) => {
      const finishReason = whole[id]![1];
      const text = await server.post(`/agents/${id}/text`, body);
      expect([text.status, text.body.data?.finishReason]).toEqual([200, finishReason]);
      const stream = await server.post(`/agents/${id}/stream`, body);
      expect(stream.events.at(-1)).toMatchObject({ type: "finish", finishReason });
    });
  },
);
