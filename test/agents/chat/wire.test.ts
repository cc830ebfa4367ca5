import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { describe, expect, it } from "vitest";
import { open, say, slowly, sockets, textOf } from "./chat-server.ts";

describe.each(["in process", ...sockets] as const)("the wire of POST /agents/:id/chat (%s)", (target) => {
  it("POST /agents/:id/chat is the UI message stream: its header, data frames of JSON, and [DONE] at the end", async () => {
    const { server } = await open(["Hello Ada."], {}, target);
    const { status, headers, text, events } = await say(server, "c1", "Hi");
    expect([status, headers.get("x-vercel-ai-ui-message-stream")]).toEqual([200, "v1"]);
    expect(headers.get("content-type")).toMatch(/^text\/event-stream/);
    const frames = text.split("\n\n");
    expect(frames.splice(-2)).toEqual(["data: [DONE]", ""]);
    for (const frame of frames) expect(frame).toMatch(/^data: \{.*\}$/);
    expect(events.map(({ type }) => type)).toEqual([
      "start",
      "start-step",
      "text-start",
      "text-delta",
      "text-delta",
      "text-end",
      "finish-step",
      "finish",
    ]);
    expect(textOf({ events })).toBe("Hello Ada.");
    expect(text).not.toContain("quetzalcoatl");
  });

  it("a model that fails before its first part is a plain 502, with its words only in dev and never with a key", async () => {
    const { server } = await open([new Error("the key sk-123 is wrong")], {}, target);
    const { status, headers, body, text } = await say(server, "c1", "Hi");
    const detail = target === "dev" && { detail: "the key [hidden] is wrong" };
    expect([status, body]).toEqual([502, { success: false, error: "Model call failed", ...detail }]);
    expect(headers.get("content-type")).toMatch(/^application\/json/);
    expect(headers.get("x-vercel-ai-ui-message-stream")).toBeNull();
    expect(text).not.toMatch(/sk-123|quetzalcoatl/);
  });

  it("a model that fails later makes an error the last chunk before [DONE], without a word of the model's", async () => {
    const fails = async () => {
      throw new Error("the key sk-123 is wrong");
    };
    const part: LanguageModelV4StreamPart[] = [
      { type: "text-start", id: "t" },
      { type: "text-delta", id: "t", delta: "Hel" },
      { type: "error", error: "the key sk-123 is wrong" },
    ];
    const { server } = await open([() => slowly(["Hel", "lo"], fails), part], {}, target);
    for (const conversation of ["throws", "sends an error"]) {
      const { status, text, events } = await say(server, conversation, "Hi");
      expect([status, textOf({ events })]).toEqual([200, "Hel"]);
      expect(events.at(-1)).toEqual({ type: "error", errorText: "Model call failed" });
      expect(events.filter(({ type }) => ["error", "finish"].includes(type))).toHaveLength(1);
      expect(text).toMatch(/\ndata: \[DONE\]\n\n$/);
      expect(text).not.toMatch(/sk-123|quetzalcoatl/);
    }
  });
});
