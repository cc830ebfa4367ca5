// Each of these changes makes a test of this file fail: an answer without `stopped`; a tool that has ended in time stored as
// `Stopped`; a step without a part that is stored; a stream without `start`; turns found without their user or their agent.
import { defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { within } from "../../harness/waiting.ts";
import { attach, chat, chatBody, createPlannedModel, isText, linesOf, openReader } from "./turn-server.ts";
import { read, stop, stored, toAgent, unique } from "./turn-server.ts";

const { model, gates, plan, words, prompts, signal } = createPlannedModel();
const aborted = new Map<string, PromiseWithResolvers<void>>();
const abortOf = (key: string) => {
  const one = aborted.get(key) ?? Promise.withResolvers<void>();
  aborted.set(key, one);
  return one;
};
const inputSchema = v.object({ key: v.string() });
const tools = {
  deaf: defineTool({
    description: "Never ends",
    inputSchema,
    execute({ key }, { signal: ends }) {
      ends.addEventListener("abort", () => abortOf(key).resolve());
      void gates.pass(key);
      return new Promise<never>(() => {});
    },
  }),
  tidy: defineTool({
    description: "Ends when it is told to",
    inputSchema,
    async execute({ key }, { signal: ends }) {
      const told = new Promise((resolve) => ends.addEventListener("abort", resolve));
      void gates.pass(key);
      await told;
      return "tidied";
    },
  }),
  quick: defineTool({ description: "Ends at once", inputSchema, execute: () => "done" }),
};
const errors: unknown[] = [];
const agents = [
  toAgent(model, "helper", { tools, hooks: { onError: ({ error }) => void errors.push(error) } }),
  toAgent(model, "other"),
];

const config = { agents };
describeServer("POST /agents/:id/conversations/:conversationId/stop", { config, only: ["start"] }, (server) => {
  it("a stop stores the part that was made, ends the stream with `abort`, and the next turn sees it", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, words(`${question} a`, "never"));
    const reader = await chat(server, "helper", id, question);
    const [start] = await reader.readUntil(isText(`${question} a`));
    const { status, body } = await stop(server, "helper", id);
    expect([status, body.data]).toEqual([200, { stopped: true, messageId: start.messageId }]);
    const events = await reader.rest();
    expect(signal(question).aborted).toBe(true); // on another replica, a moment after the answer to the stop
    expect(events.at(-1)).toMatchObject({ type: "abort" });
    expect(events.filter(({ type }) => ["abort", "finish", "error"].includes(type))).toHaveLength(1);
    expect(reader.text().endsWith("data: [DONE]\n\n")).toBe(true);
    const messages = await stored(server, "helper", id, 2);
    expect(linesOf(messages)).toEqual([`user: ${question}`, `assistant: ${question} a`]);
    expect(messages[1]).toMatchObject({ id: start.messageId, metadata: { stopped: true } });
    expect(messages[1]!.parts.at(-1)).toMatchObject({ type: "text", state: "done" });
    const next = unique("next");
    plan(next, "Hello.");
    await (await chat(server, "helper", id, next)).rest();
    expect(prompts(next)[0]).toEqual([`user: ${question}`, `assistant: ${question} a`, `user: ${next}`]);
    for (const word of [`${question} a`, "never"]) gates.open(word);
    expect(linesOf(await read(server, "helper", id))).toHaveLength(4);
  });

  it("a stop aborts running tools, and stores their results if they end in time, or the error `Stopped`", async () => {
    const [id, question] = [unique("c"), unique("question")];
    const toCall = (toolName: string) => ({
      toolName,
      toolCallId: toolName,
      input: { key: `${question}-${toolName}` },
    });
    plan(question, { toolCalls: ["quick", "deaf", "tidy"].map(toCall) });
    const reader = await chat(server, "helper", id, question);
    for (const name of ["deaf", "tidy"]) await within(gates.reached(`${question}-${name}`));
    expect((await stop(server, "helper", id)).body.data.stopped).toBe(true);
    await within(abortOf(`${question}-deaf`).promise);
    const events = await reader.rest();
    expect(events.at(-1).type).toBe("abort");
    expect(events).toContainEqual({ type: "tool-output-error", toolCallId: "deaf", errorText: "Stopped" });
    const [, answer] = await stored(server, "helper", id, 2);
    expect(answer!.parts.filter(({ type }) => type.startsWith("tool-"))).toMatchObject([
      { toolCallId: "quick", state: "output-available", output: "done" },
      { toolCallId: "deaf", state: "output-error", errorText: "Stopped" },
      { toolCallId: "tidy", state: "output-available", output: "tidied" },
    ]);
    expect(answer!.metadata).toMatchObject({ stopped: true });
    const next = unique("next");
    plan(next, "Hello.");
    await (await chat(server, "helper", id, next)).rest();
    const shown = prompts(next)[0]!.find((line) => line.startsWith("tool: "));
    expect(shown).toBe('tool: [quick → "done"] [deaf → "Stopped"] [tidy → "tidied"]');
  });

  it("a stop answers a waiting `text` with 409 and ends a `stream`", async () => {
    const [id, question, second] = [unique("c"), unique("question"), unique("question")];
    for (const one of [question, second]) plan(one, words(one));
    const options = { conversationId: id };
    const text = server.post("/agents/helper/text", { input: question, options });
    await within(gates.reached(question));
    await (await attach(server, "helper", id)).readUntil(isText(question));
    await stop(server, "helper", id);
    const { status, body } = await text;
    expect([status, body]).toEqual([409, { success: false, error: "The turn was stopped" }]);
    const reader = await openReader(server, "/agents/helper/stream", { input: second, options });
    await reader.readUntil(isText(second));
    await stop(server, "helper", id);
    expect((await reader.rest()).map(({ type }) => type)).not.toContain("error");
    expect(linesOf(await stored(server, "helper", id, 4))).toEqual([
      `user: ${question}`,
      `assistant: ${question}`,
      `user: ${second}`,
      `assistant: ${second}`,
    ]);
  });

  it("a stop before the first word stores no answer", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, words("", "never"));
    const reader = await chat(server, "helper", id, question);
    await reader.readUntil(({ type }) => type === "text-start");
    await stop(server, "helper", id);
    expect((await reader.rest()).at(-1).type).toBe("abort");
    expect(linesOf(await read(server, "helper", id))).toEqual([`user: ${question}`]);
  });

  it("a stop before the first part stores no answer, and the conversation continues", async () => {
    const [id, question, next] = [unique("c"), unique("question"), unique("next")];
    plan(question, async () => {
      await gates.pass(question);
      return "Never.";
    });
    const answered = chat(server, "helper", id, question);
    await within(gates.reached(question));
    const { body } = await stop(server, "helper", id);
    const { messageId } = body.data;
    const reader = await answered;
    expect(await reader.rest()).toMatchObject([{ type: "start", messageId }, { type: "abort" }]);
    plan(next, "Hello.");
    await (await chat(server, "helper", id, next)).rest();
    expect(linesOf(await read(server, "helper", id))).toEqual([
      `user: ${question}`,
      `user: ${next}`,
      "assistant: Hello.",
    ]);
    gates.open(question);
  });

  it("a stop takes the id of the user's message or of the answer, and is a 409 for any other", async () => {
    const [id, question] = [unique("c"), unique("question")];
    for (const which of ["question", "answer"]) {
      const asked = `${question}-${which}`;
      plan(asked, words(asked));
      const reader = await chat(server, "helper", id, asked);
      const [start] = await reader.readUntil(isText(asked));
      const refused = await stop(server, "helper", id, { messageId: "another" });
      expect([refused.status, refused.body.error]).toEqual([409, "That turn has ended"]);
      expect(signal(asked).aborted).toBe(false);
      const messageId = which === "question" ? `${asked}-id` : start.messageId;
      const { body } = await stop(server, "helper", id, { messageId });
      expect(body.data).toEqual({ stopped: true, messageId: start.messageId });
      await reader.rest();
      expect((await stop(server, "helper", id, { messageId })).status).toBe(409);
    }
  });

  it("a stop finds nothing when no turn runs, and in a conversation of another user or agent", async () => {
    const [id, question] = [unique("c"), unique("question")];
    const nothing = { stopped: false, messageId: null };
    expect((await stop(server, "helper", id)).body.data).toEqual(nothing);
    plan(question, words(question));
    const reader = await chat(server, "helper", id, question, { userId: "ada" });
    await reader.readUntil(isText(question));
    expect((await stop(server, "helper", id)).body.data).toEqual(nothing);
    expect((await stop(server, "helper", id, {}, "?userId=bob")).body.data).toEqual(nothing);
    expect((await stop(server, "other", id, {}, "?userId=ada")).body.data).toEqual(nothing);
    expect((await stop(server, "helper", id, { messageId: `${question}-id` }, "?userId=bob")).status).toBe(409);
    expect(signal(question).aborted).toBe(false);
    gates.open(question);
    expect((await reader.rest()).at(-1).type).toBe("finish");
    expect((await stop(server, "helper", id, {}, "?userId=ada")).body.data).toEqual(nothing);
    expect((await stop(server, "nobody", id)).status).toBe(404);
  });

  it("a stop ends only the turn that runs: those that wait continue", async () => {
    const [id, question, next] = [unique("c"), unique("question"), unique("next")];
    plan(question, words(question));
    plan(next, "Hello.");
    const first = await chat(server, "helper", id, question);
    await first.readUntil(isText(question));
    const second = server.post("/agents/helper/chat", chatBody(id, next));
    expect((await stop(server, "helper", id)).body.data.stopped).toBe(true);
    expect((await first.rest()).at(-1).type).toBe("abort");
    expect((await second).events.at(-1).type).toBe("finish");
    expect(linesOf(await stored(server, "helper", id, 4)).slice(2)).toEqual([`user: ${next}`, "assistant: Hello."]);
  });

  it("a stop of a message that is regenerated replaces it by the part that was made", async () => {
    const [id, question] = [unique("c"), unique("question")];
    plan(question, "Whole answer.", words(question, "never"));
    const [start] = await (await chat(server, "helper", id, question)).rest();
    const again = { ...chatBody(id, question), trigger: "regenerate-message", messageId: start.messageId };
    const reader = await openReader(server, "/agents/helper/chat", again);
    await reader.readUntil(isText(question));
    expect(linesOf(await read(server, "helper", id))).toEqual([`user: ${question}`, "assistant: Whole answer."]);
    await stop(server, "helper", id);
    await reader.rest();
    expect(linesOf(await stored(server, "helper", id, 2))).toEqual([`user: ${question}`, `assistant: ${question}`]);
    gates.open(question);
  });

  it("a stop is no error in the log", () => {
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});
