import { defineAgent } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { tool } from "ai";
import { expect, it } from "vitest";
import { z } from "zod";
import { startTestServer } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";

/** A tool that books after its first result, when it is told to. */
function createAgent() {
  const steps: string[] = [];
  const charged = Promise.withResolvers<void>();
  const stopped = Promise.withResolvers<void>();
  const pay = tool({
    description: "Pays.",
    inputSchema: z.object({}),
    async *execute() {
      steps.push("charge");
      charged.resolve();
      await stopped.promise;
      yield "charged";
      steps.push("book");
      yield "booked";
      steps.push("end");
    },
  });
  const model = scriptedModel([{ toolCalls: [{ toolName: "pay", toolCallId: "p", input: {} }] }, "Done."]);
  const agent = defineAgent({
    id: "a",
    instructions: "Pay.",
    model,
    maxRetries: 0,
    tools: { pay },
    onDisconnect: "abort",
  });
  return { agent, steps, charged: charged.promise, stop: stopped.resolve };
}

it("a tool with many results runs to its end after its client has left", async () => {
  const { agent, steps, charged, stop } = createAgent();
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  const client = new AbortController();
  const reading = server
    .send("/agents/a/stream", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: "go" }),
      signal: client.signal,
    })
    .then((response) => response.text());
  await charged;
  client.abort();
  await reading.catch(() => {});
  stop();
  await until(
    () => steps.includes("end"),
    () => steps.join(),
  );
  expect(steps).toEqual(["charge", "book", "end"]);
});

it("the last result of a tool with many results is kept if it ends right after a stop", async () => {
  const { agent, steps, charged, stop } = createAgent();
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  const answer = server.post("/agents/a/stream", { input: "go", options: { conversationId: "c" } });
  await charged;
  const stopping = server.post("/agents/a/conversations/c/stop", {});
  stop();
  await Promise.all([stopping, answer]);
  expect(steps).toEqual(["charge", "book", "end"]);
});
