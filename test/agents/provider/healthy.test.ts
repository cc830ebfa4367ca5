import { expect, it } from "vitest";
import { describeAgents, expectHealthy, newPrompt, provider, ran } from "./provider-suite.ts";
import type { Exchange } from "./provider.ts";
import { apiKey, endpoints, instructions, isStream, megabytes, piecesOf, schema, streams } from "./troubles.ts";

describeAgents("a healthy provider", { only: ["in process", "dev", "start"] }, (server, ask) => {
  it.for(endpoints)("%s asks with key, instructions and prompt, and returns the whole answer", async (endpoint) => {
    const prompt = newPrompt();
    expectHealthy(endpoint, prompt, await ask(endpoint, "healthy", prompt));
    const [{ headers, body, streamed }] = provider.asked(prompt) as [Exchange];
    expect(headers.authorization).toBe(`Bearer ${apiKey}`);
    expect(body.messages).toMatchObject([
      { role: "system", content: instructions },
      { role: "user", content: prompt },
    ]);
    expect(streamed).toBe(isStream(endpoint));
  });

  it.for(streams)("%s takes an answer with a finish reason and without [DONE] for whole", async (endpoint) => {
    const prompt = newPrompt();
    expectHealthy(endpoint, prompt, await ask(endpoint, "done-less", prompt));
  });

  it.for(streams)("%s sends the first part of an answer before the provider sends more", async (endpoint) => {
    // The provider says the second word only once the client has seen the first.
    const prompt = newPrompt();
    const { events } = await ask(endpoint, "healthy", prompt);
    const growing = events.filter(({ type }) => type === "text-delta" || type === "partial-object");
    expect(growing.length).toBeGreaterThan(1);
    if (endpoint === "stream-object")
      expect(growing[0]).toEqual({ type: "partial-object", object: { city: `FIRST(${prompt})` } });
    else expect(growing.map(({ delta }) => delta)).toEqual(piecesOf(prompt));
  });

  it.for(endpoints)("%s runs the tools that the model calls, and tells it what they returned", async (endpoint) => {
    const prompt = newPrompt();
    ran.length = 0;
    const answer = await ask(endpoint, "loop", prompt);
    expectHealthy(endpoint, prompt, answer);
    expect(ran).toEqual([{ tool: "weather", input: { city: "Bern" } }]);
    const [first, second, ...more] = provider.asked(prompt);
    expect(more).toEqual([]);
    expect(first!.body.tools?.map(({ function: { name } }) => name)).toEqual(["weather", "explode", "wait"]);
    expect(second!.body.messages.at(-1)).toEqual({
      role: "tool",
      tool_call_id: "call-1",
      content: '{"sky":"clear over Bern"}',
    });
    const call = { toolCallId: "call-1", toolName: "weather", input: { city: "Bern" } };
    const output = { sky: "clear over Bern" };
    if (endpoint === "text")
      expect(answer.body.data).toMatchObject({ steps: 2, toolCalls: [call], toolResults: [{ ...call, output }] });
    if (endpoint === "stream") {
      expect(answer.events).toContainEqual(expect.objectContaining({ type: "tool-call", ...call }));
      expect(answer.events).toContainEqual(expect.objectContaining({ type: "tool-result", ...call, output }));
    }
    if (endpoint === "chat")
      expect(answer.events).toContainEqual(
        expect.objectContaining({ type: "tool-output-available", toolCallId: "call-1", output }),
      );
  });

  it.for(["text", "stream", "stream-object"] as const)("%s sums the usage of all steps", async (endpoint) => {
    const { body, events } = await ask(endpoint, "loop");
    const { usage: summed } = endpoint === "text" ? body.data : events.at(-1);
    expect(summed).toEqual({
      inputTokens: 300,
      outputTokens: 27,
      totalTokens: 327,
      reasoningTokens: 7,
      cachedInputTokens: 70,
    });
  });

  it.for(["object", "stream-object"] as const)("%s gives the provider the client's schema", async (endpoint) => {
    const prompt = newPrompt();
    await ask(endpoint, "healthy", prompt);
    expect(provider.asked(prompt)[0]!.body.response_format).toMatchObject({
      type: "json_schema",
      json_schema: { schema },
    });
  });

  const large = server.target === "start" ? endpoints : [];
  it.for(large)("%s takes an answer of 10 MB in one line", async (endpoint) => {
    const { status, body, events } = await ask(endpoint, "large-delta");
    expect(status).toBe(200);
    const text = `{"city":"${megabytes}","people":3}`;
    if (endpoint === "text") expect(body.data.text === text).toBe(true);
    if (endpoint === "object") expect(body.data.city === megabytes).toBe(true);
    if (endpoint === "stream-object") expect(events.at(-1).object.city === megabytes).toBe(true);
    if (endpoint === "stream" || endpoint === "chat") {
      const said = events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta);
      expect(said.join("") === text).toBe(true);
    }
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});
