import { expect, it } from "vitest";
import { within } from "../../harness/waiting.ts";
import {
  describeAgents,
  expectHealthy,
  expectIdle,
  newPrompt,
  provider,
  ran,
  visit,
  waitingFor,
} from "./provider-suite.ts";
import { endpoints } from "./troubles.ts";

describeAgents("a model that calls its tools wrongly", {}, (server, ask) => {
  const wrong: [id: string, what: string, error: RegExp][] = [
    ["unknown-tool", "a tool that does not exist", /nosuch/],
    ["broken-input", "a tool with broken JSON", /JSON|invalid input/i],
    ["wrong-input", "a tool with input of the wrong type", /city/],
    ["throwing-tool", "a tool that throws", /the oven is off/],
  ];
  const rows = wrong.flatMap(([id, what, error]) => endpoints.map((endpoint) => ({ endpoint, id, what, error })));

  it.for(rows)(
    "tells the model in $endpoint that it called $what, and continues",
    async ({ endpoint, id, error: own }) => {
      const isHidden = id === "throwing-tool" && server.target !== "dev";
      const error = isHidden ? /^Tool explode failed$/ : own;
      const prompt = newPrompt();
      ran.length = 0;
      const answer = await ask(endpoint, id, prompt);
      expectHealthy(endpoint, prompt, answer);
      expect(ran).toEqual(id === "throwing-tool" ? [{ tool: "explode", input: {} }] : []);
      const [, second, ...third] = provider.asked(prompt);
      expect(third).toEqual([]);
      expect(second!.body.messages.at(-1)).toEqual({
        role: "tool",
        tool_call_id: "call-1",
        content: expect.stringMatching(error),
      });
      const shown = { toolCallId: "call-1", error: expect.stringMatching(error) };
      if (endpoint === "text") expect(answer.body.data.toolResults).toMatchObject([shown]);
      if (endpoint === "text") expect(answer.body.data.steps).toBe(2);
      const failed = answer.events.filter(({ type }) => type === "tool-error");
      if (endpoint === "stream") expect(failed).toMatchObject([shown]);
      if (endpoint === "chat")
        expect(answer.events).toContainEqual(
          expect.objectContaining({ toolCallId: "call-1", errorText: expect.stringMatching(error) }),
        );
    },
  );

  it.for(endpoints)("aborts a tool that never returns when the client leaves %s", async (endpoint) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, "endless-tool", prompt);
    const signal = await within(waitingFor(prompt).promise);
    expect(signal.aborted).toBe(false);
    client.leave();
    await expect.poll(() => signal.aborted).toBe(true);
    await expectIdle(server, "endless-tool");
    expect(provider.asked(prompt)).toHaveLength(1);
  });
});
