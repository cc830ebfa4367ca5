import type { ScriptedStep } from "agentserve/models";
import { DefaultChatTransport, lastAssistantMessageIsCompleteWithToolCalls } from "ai";
import { describe, expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { openPage } from "../../harness/react.ts";
import {
  abortsOnLeave,
  callLocate,
  callWeather,
  locate,
  open,
  romeInModel,
  romeOnPage,
  slowly,
  sockets,
  weather,
} from "./chat-server.ts";

describe.each(sockets)("POST /agents/:id/chat and the clients of the AI SDK (%s)", (target) => {
  it("useChat with a URL has three turns, one of them with a tool, and one answered again", async () => {
    const gates = createGates();
    const script: ScriptedStep[] = [
      async () => {
        await gates.pass("asked");
        return slowly(["Hello ", "Ada."], (word) => gates.pass(word));
      },
      callWeather("Rome"),
      "Clear over Rome.",
      "You are Ada.",
      "Ada it is.",
    ];
    const { api, prompts } = await open(script, { tools: { weather } }, target);
    const page = await openPage({ transport: new DefaultChatTransport({ api }) });
    expect(page.shown()).toEqual(["ready"]);

    const sent = page.chat().sendMessage({ text: "I am Ada" });
    await page.until(() => expect(page.shown()).toEqual(["submitted", "user: I am Ada"]));
    gates.open("asked");
    await page.until(() => expect(page.shown()).toEqual(["streaming", "user: I am Ada", "assistant: Hello "]));
    for (const word of ["Hello ", "Ada."]) gates.open(word);
    await sent;
    await page.until(() => expect(page.shown()).toEqual(["ready", "user: I am Ada", "assistant: Hello Ada."]));
    expect(page.statuses).toEqual(["ready", "submitted", "streaming", "ready"]);

    await page.chat().sendMessage({ text: "Weather in Rome?" });
    const before = ["user: I am Ada", "assistant: Hello Ada.", "user: Weather in Rome?"];
    await page.until(() => expect(page.shown()).toEqual(["ready", ...before, romeOnPage]));
    await page.chat().sendMessage({ text: "Who am I?" });
    const who = [...before, romeOnPage, "user: Who am I?"];
    await page.until(() => expect(page.shown()).toEqual(["ready", ...who, "assistant: You are Ada."]));
    await page.chat().regenerate();
    await page.until(() => expect(page.shown()).toEqual(["ready", ...who, "assistant: Ada it is."]));
    expect(page.chat().error).toBeUndefined();
    const third = [...before, ...romeInModel, "user: Who am I?"];
    expect(prompts()).toEqual([before.slice(0, 1), before, [...before, ...romeInModel.slice(0, 2)], third, third]);
  });

  it("useChat shows that a model failed, and only in dev how, and can ask again", async () => {
    const { api } = await open([new Error("the key sk-123 is wrong"), "Hello."], {}, target);
    const page = await openPage({ transport: new DefaultChatTransport({ api }) });
    await page.chat().sendMessage({ text: "Hi" });
    await page.until(() => expect(page.shown()).toEqual(["error", "user: Hi"]));
    const detail = target === "dev" && { detail: "the key [hidden] is wrong" };
    const said: unknown = JSON.parse(page.chat().error!.message);
    expect(said).toEqual({ success: false, error: "Model call failed", ...detail });
    await page.chat().regenerate();
    await page.until(() => expect(page.shown()).toEqual(["ready", "user: Hi", "assistant: Hello."]));
  });

  it("useChat answers the client's own tools, and the model continues in the same message", async () => {
    const { api, prompts } = await open([callLocate, "You are in Rome.", "Goodbye."], { tools: { locate } }, target);
    const page = await openPage({
      transport: new DefaultChatTransport({ api }),
      sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithToolCalls,
    });
    await page.chat().sendMessage({ text: "Where am I?" });
    const asked = "user: Where am I?";
    await page.until(() => expect(page.shown()).toEqual(["ready", asked, "assistant: [locate {} → input-available]"]));
    await page.chat().addToolOutput({ tool: "locate", toolCallId: "l1", output: { city: "Rome" } });
    const answered = 'assistant: [locate {} → {"city":"Rome"}] You are in Rome.';
    await page.until(() => expect(page.shown()).toEqual(["ready", asked, answered]));
    await page.chat().sendMessage({ text: "Thanks" });
    const shows = [asked, answered, "user: Thanks", "assistant: Goodbye."];
    await page.until(() => expect(page.shown()).toEqual(["ready", ...shows]));
    const located = [asked, "assistant: [locate {}]", 'tool: [locate → {"city":"Rome"}]'];
    expect(prompts()).toEqual([
      located.slice(0, 1),
      located,
      [...located, "assistant: You are in Rome.", "user: Thanks"],
    ]);
  });

  /** A model that says one word, and waits until it is aborted. */
  function createCounter(): { script: ScriptedStep[]; aborted: Promise<void> } {
    const { promise: aborted, resolve } = Promise.withResolvers<void>();
    const count: ScriptedStep = ({ abortSignal }) =>
      slowly(["One ", "two."], async () => {
        abortSignal!.addEventListener("abort", () => resolve());
        await aborted;
        abortSignal!.throwIfAborted();
      });
    return { script: [count, "Hello."], aborted };
  }

  it("stop() of useChat after a stop of the turn: its answer is stored as far as it was made", async () => {
    const { script, aborted } = createCounter();
    const { api, server, prompts } = await open(script, {}, target);
    const page = await openPage({ transport: new DefaultChatTransport({ api }) });
    const sent = page.chat().sendMessage({ text: "Count" });
    await page.until(() => expect(page.shown()).toEqual(["streaming", "user: Count", "assistant: One "]));
    const { body } = await server.post(`/agents/helper/conversations/${page.chat().id}/stop`, {});
    expect(body.data).toEqual({ stopped: true, messageId: page.chat().messages[1]!.id });
    await page.chat().stop();
    await sent;
    await aborted;
    await page.until(() => expect(page.shown()).toEqual(["ready", "user: Count", "assistant: One "]));
    expect(page.chat().error).toBeUndefined();
    await page.chat().sendMessage({ text: "Hi" });
    expect(prompts()[1]).toEqual(["user: Count", "assistant: One ", "user: Hi"]);
  });

  it("stop() of useChat aborts the model if the client says so, and what was said stays on the page", async () => {
    const { script, aborted } = createCounter();
    const { api, model, prompts } = await open(script, {}, target);
    const page = await openPage({ transport: new DefaultChatTransport({ api, body: abortsOnLeave }) });
    const sent = page.chat().sendMessage({ text: "Count" });
    await page.until(() => expect(page.shown()).toEqual(["streaming", "user: Count", "assistant: One "]));
    expect(model.calls[0]!.abortSignal!.aborted).toBe(false);
    await page.chat().stop();
    await sent;
    await aborted;
    await page.until(() => expect(page.shown()).toEqual(["ready", "user: Count", "assistant: One "]));
    expect(page.chat().error).toBeUndefined();
    await page.chat().sendMessage({ text: "Hi" });
    expect(prompts()[1]).toEqual(["user: Count", "user: Hi"]);
  });
});
