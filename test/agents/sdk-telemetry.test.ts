// A server that always turns the SDK's telemetry off makes both tests fail.
import { tracingChannel } from "node:diagnostics_channel";
import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";
import { expect, it, onTestFinished } from "vitest";
import { startTestServer } from "../harness/server.ts";

async function ask(): Promise<void> {
  const agent = defineAgent({ id: "a", instructions: "x", model: echoModel() });
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  expect((await server.post("/agents/a/stream", { input: "hi" })).status).toBe(200);
  expect((await server.post("/agents/a/text", { input: "hi" })).status).toBe(200);
}

it("tells integrations of the AI SDK's telemetry of the calls of a model", async () => {
  const before = globalThis.AI_SDK_TELEMETRY_INTEGRATIONS;
  onTestFinished(() => void (globalThis.AI_SDK_TELEMETRY_INTEGRATIONS = before));
  const heard: string[] = [];
  globalThis.AI_SDK_TELEMETRY_INTEGRATIONS = [
    { onStart: () => void heard.push("start"), onEnd: () => void heard.push("end") },
  ];
  await ask();
  expect(heard).toEqual(["start", "end", "start", "end"]);
});

it("tells subscribers of the AI SDK's channel of the calls of a model", async () => {
  const channel = tracingChannel("ai:telemetry");
  const heard: string[] = [];
  const subscriber = { start: (message: object) => void heard.push((message as { type: string }).type) };
  channel.subscribe(subscriber as never);
  onTestFinished(() => void channel.unsubscribe(subscriber as never));
  await ask();
  expect(heard.filter((type) => type === "streamText" || type === "generateText")).toHaveLength(2);
});
