import { defineAgent, defineTool } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import fc from "fast-check";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer, startTestServer } from "../../harness/server.ts";
import { bySize } from "../../harness/size.ts";
import { isLowestSdk } from "../lowest-sdk.ts";
import { brokenMessages } from "./arbitrary-messages.ts";

const weather = defineTool({ description: "", inputSchema: v.object({ city: v.string() }), execute: () => "sunny" });
const fetches = { ...echoModel(), supportedUrls: { "*/*": [/^https?:/] } };
const agents = [
  defineAgent({ id: "echo", instructions: "", model: echoModel(), tools: { weather } }),
  defineAgent({ id: "fetches", instructions: "", model: fetches }),
];
const endpoints = ["text", "object", "stream", "stream-object", "chat"];

const png = "iVBORw0KGgo=";
const base64Url = "expected a data: URL like data:image/png;base64,…";
const references = "expected files as data: URLs, or as URLs that the model's provider fetches";
const ui = (part: object) => ({ role: "user", parts: [{ type: "text", text: "hi" }, part] });
const uiFile = (url: string) => ui({ type: "file", mediaType: "image/png", url });
const model = (part: object) => ({ role: "user", content: [{ type: "text", text: "hi" }, part] });
const modelFile = (data: unknown, mediaType = "image/png") => model({ type: "file", mediaType, data });
const result = (output: unknown) => ({
  role: "tool",
  content: [{ type: "tool-result", toolCallId: "c", toolName: "weather", output }],
});
const content = (part: object) => result({ type: "content", value: [part] });
const calls = { role: "assistant", parts: [{ type: "tool-weather", toolCallId: "c", state: "approval-responded" }] };

/** Messages in which one part is wrong, with its place in the message and what is expected there. */
const wrong: readonly [title: string, message: object, place: string, why: string][] = [
  ["a URL that is none", uiFile("not a url"), "parts.1.url", "expected a URL"],
  ["a path", uiFile("/a.png"), "parts.1.url", "expected a URL"],
  ["a data: URL without data", uiFile("data:image/png"), "parts.1.url", base64Url],
  ["a data: URL without a media type", uiFile(`data:;base64,${png}`), "parts.1.url", base64Url],
  ["a data: URL with a wrong media type", uiFile(`data:a/b/c;base64,${png}`), "parts.1.url", base64Url],
  ["a data: URL that is not base64", uiFile("data:text/plain,hi"), "parts.1.url", base64Url],
  ["a data: URL with wrong base64", uiFile("data:image/png;base64,%%%"), "parts.1.url", "expected base64"],
  [
    "a file without a media type",
    ui({ type: "file", mediaType: "", url: "https://example.com/a.png" }),
    "parts.1.mediaType",
    "expected a media type like image/png",
  ],
  [
    "a file of the author's account in a UI message",
    ui({ type: "file", mediaType: "image/png", url: "", providerReference: { openai: "f" } }),
    "parts.1.providerReference",
    references,
  ],
  [
    "a reasoning file",
    { role: "assistant", parts: [{ type: "reasoning-file", mediaType: "image/png", url: "x" }] },
    "parts.0.url",
    "expected a URL",
  ],
  [
    "a file in a steering message",
    {
      role: "assistant",
      parts: [{ type: "steering-message", id: "s", parts: [{ type: "file", mediaType: "image/png", url: "x" }] }],
    },
    "parts.0.parts.0.url",
    "expected a URL",
  ],
  ["a UI part of an unknown type", ui({ type: "hologram" }), "parts.1", 'not a valid part of type "hologram"'],
  ["a UI part that is no object", ui(7 as never), "parts.1", "not a part"],
  ["a text part without text", ui({ type: "text" }), "parts.1", 'not a valid part of type "text"'],
  ["an approval without an id", calls, "parts.0", 'not a valid part of type "tool-weather"'],
  ["wrong base64 in a model message", modelFile("€€€€"), "content.1.data", "expected base64"],
  ["wrong base64 with a tag", modelFile({ type: "data", data: "%" }), "content.1.data.data", "expected base64"],
  ["a wrong URL with a tag", modelFile({ type: "url", url: "x" }), "content.1.data.url", "expected a URL"],
  ["no text with a tag", modelFile({ type: "text" }), "content.1.data.text", "expected a string"],
  ["a wrong image", model({ type: "image", image: "%" }), "content.1.image", "expected base64"],
  ["a wrong media type", modelFile(png, "a b"), "content.1.mediaType", "expected a media type like image/png"],
  ["a file of the author's account", modelFile({ openai: "f" }), "content.1.data", references],
  ["a wrong part of a model message", model({ type: "text", text: 7 }), "content.1", 'not a valid part of type "text"'],
  ["a tool result of the wrong shape", result("sunny"), "content.0", 'not a valid part of type "tool-result"'],
  [
    "a wrong URL in a tool result",
    content({ type: "image-url", url: "x" }),
    "content.0.output.value.0.url",
    "expected a URL",
  ],
  [
    "wrong base64 in a tool result",
    content({ type: "file-data", mediaType: "image/png", data: "%" }),
    "content.0.output.value.0.data",
    "expected base64",
  ],
  ["a file id in a tool result", content({ type: "file-id", fileId: "f" }), "content.0.output.value.0", references],
];

describeServer("a malformed part", { config: { agents }, only: ["in process"] }, (server) => {
  const before = [
    { role: "user", content: "hi" },
    { role: "assistant", content: "hello" },
  ];

  for (const [title, message, place, why] of wrong) {
    if (isLowestSdk && title === "a file in a steering message") continue;
    it(`refuses ${title} with a 400 that names its place`, async () => {
      for (const endpoint of endpoints) {
        const json = { input: [...before, message], schema: { type: "object" } };
        const { status, body } = await server.post(`/agents/fetches/${endpoint}`, json);
        expect([status, body.error]).toEqual([400, `Invalid request body: input.2.${place}: ${why}`]);
      }
      const { status, body } = await server.post("/agents/fetches/chat", { messages: [message] });
      expect([status, body.error]).toEqual([400, `Invalid request body: messages.0.${place}: ${why}`]);
    });
  }

  it("takes other base64, parameters of a media type, a range of media types, and no media type", async () => {
    for (const message of [
      uiFile(`data:image/png;base64,${png}`),
      uiFile("data:text/plain;charset=utf-8;base64,aGk="),
      uiFile("data:image/svg+xml;base64,aGk"),
      uiFile("https://example.com/a.png?x=ü"),
      ui({ type: "file", mediaType: "", url: "data:application/octet-stream;base64,aGk=" }),
      modelFile("aG k=\n"),
      modelFile("-_-_", "image"),
      modelFile({ type: "data", data: png }, "image/*"),
      modelFile({ type: "url", url: `data:image/png;base64,${png}` }),
      modelFile("https://example.com/a.png"),
      modelFile({ type: "text", text: "" }, "text/plain; charset=utf-8"),
      model({ type: "image", image: png }),
    ]) {
      const { status, text } = await server.post("/agents/fetches/text", { input: [message] });
      expect(status, `${JSON.stringify(message)} ${text}`).toBe(200);
    }
  });
});

it("a file stays in its conversation: the next turn shows it to the model as the first did", async () => {
  for (const file of [
    uiFile(`data:image/png;base64,${png}`),
    modelFile({ type: "url", url: "https://example.com/a" }),
  ]) {
    const scripted = { ...scriptedModel(["one", "two"]), supportedUrls: fetches.supportedUrls };
    const agent = defineAgent({ id: "a", instructions: "", model: scripted });
    const server = await startTestServer("in process", { config: { agents: [agent] } });
    const options = { conversationId: "c" };
    expect((await server.post("/agents/a/text", { input: [file], options })).status).toBe(200);
    const { status, text } = await server.post("/agents/a/text", { input: "again", options });
    expect(status, text).toBe(200);
    const [first, second] = scripted.calls.map(({ prompt }) => prompt.find(({ role }) => role === "user")!.content);
    expect(second).toEqual(first);
  }
});

describeServer("messages of a client", { config: { agents }, only: ["in process"] }, (server) => {
  it(
    "answers messages with 200 or 400, whatever is wrong with them, and never with a 5xx",
    { timeout: bySize(120_000, 3_600_000) },
    async () => {
      const asked = fc.record({
        agent: fc.constantFrom("echo", "fetches"),
        endpoint: fc.constantFrom(...endpoints),
        messages: brokenMessages,
        conversation: fc.option(fc.constantFrom("a", "b")),
      });
      await fc.assert(
        fc.asyncProperty(asked, async ({ agent, endpoint, messages, conversation }) => {
          const options = conversation === null ? {} : { conversationId: `${endpoint} ${conversation}` };
          const json = { input: messages, schema: { type: "object" }, options };
          const { status, text } = await server.post(`/agents/${agent}/${endpoint}`, json);
          expect([200, 400], text).toContain(status);
          if (status === 200) expect(text).not.toContain('"type":"error"');
        }),
        { numRuns: bySize(150, 8_000) },
      );
    },
  );
});
