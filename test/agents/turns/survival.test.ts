// Each of these changes makes a test of this file fail: a disconnect that aborts a turn in spite of its agent; a shutdown
// that ends a turn; a turn of an agent that is gone, and removes its question.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { describe, expect, it, onTestFinished } from "vitest";
import { onFile } from "../../harness/backends.ts";
import { createGates } from "../../harness/gates.ts";
import { startServer, type TestServer } from "../../harness/server.ts";

/** The data of conversations, over several servers. */
function createPlace() {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-turns-"));
  const backend = onFile(join(folder, "data.db"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return async (script: readonly ScriptedStep[], options: Partial<DefineAgentOptions> = {}) => {
    const model = scriptedModel(script);
    const agents = [defineAgent({ id: "helper", instructions: "x", model, maxRetries: 0, ...options })];
    const server = await startServer("start", { config: { agents, server: { limits: { drainMs: 50 } } }, backend });
    onTestFinished(() => server.close());
    return { server, lastPrompt: () => toLines(model.calls.at(-1)!.prompt) };
  };
}

const toLines = (prompt: readonly { role: string; content: unknown }[]): string[] =>
  prompt.slice(1).map(({ role, content }) => {
    const [{ text }] = content as [{ text: string }]; // every message here is one text
    return `${role}: ${text}`;
  });
const ask = (server: TestServer, input: string, id = "helper") =>
  server.post(`/agents/${id}/text`, { input, options: { conversationId: "c" } });

/** Begins a turn, waits until its model is asked, and disconnects. Resolves when the server knows that. */
async function leave(server: TestServer, reached: Promise<void>, options: object = {}): Promise<void> {
  const leaving = new AbortController();
  const gone = server
    .send("/agents/helper/stream", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ input: "First", options: { conversationId: "c", ...options } }),
      signal: leaving.signal,
    })
    .then((response) => response.text())
    .catch(() => {});
  await reached;
  leaving.abort();
  await gone;
  await expect.poll(async () => (await server.get("/metrics")).text).toMatch(/^agentserve_streams_open 0$/m);
}

describe("a turn with a conversation", () => {
  it("continues when its client disconnects", async () => {
    const gates = createGates();
    const open = createPlace();
    const late = async () => (await gates.pass("answer"), "Answered.");
    const { server, lastPrompt } = await open([late, "Second."]);
    await leave(server, gates.reached("answer"));
    gates.open("answer");
    await ask(server, "Next"); // it waits for the turn before
    expect(lastPrompt()).toEqual(["user: First", "assistant: Answered.", "user: Next"]);
  });

  it.each([
    ["its agent", { onDisconnect: "abort" }, {}],
    ["its agent, whatever the request says", { onDisconnect: "abort" }, { onDisconnect: "continue" }],
    ["its request", {}, { onDisconnect: "abort" }],
  ] as const)("is aborted then if %s says so, and keeps its question", async (_, agent, request) => {
    const gates = createGates();
    const open = createPlace();
    const never = async () => (await gates.pass("answer"), "Answered.");
    const { server, lastPrompt } = await open([never, "Second."], agent);
    await leave(server, gates.reached("answer"), request);
    await ask(server, "Next"); // the gate is closed
    expect(lastPrompt()).toEqual(["user: First", "user: Next"]);
  });

  it("continues at the next start after a shutdown", async () => {
    const gates = createGates();
    const open = createPlace();
    const never = async () => (await gates.pass("answer"), "Never.");
    const { server } = await open([never]);
    await leave(server, gates.reached("answer"));
    await server.close();
    const next = await open(["Answered.", "Second."]);
    await ask(next.server, "Next");
    expect(next.lastPrompt()).toEqual(["user: First", "assistant: Answered.", "user: Next"]);
  });

  it("ends without an answer if its agent is gone at the next start, and keeps its question", async () => {
    const gates = createGates();
    const open = createPlace();
    const never = async () => (await gates.pass("answer"), "Never.");
    const { server } = await open([never]);
    await leave(server, gates.reached("answer"));
    await server.close();
    const without = await open([], { id: "another" });
    const warning = "A turn ended after a restart: agent helper no longer exists";
    await expect.poll(() => without.server.logs.map(({ message }) => message)).toContain(warning);
    await without.server.close();
    const again = await open(["Second."]);
    await ask(again.server, "Next");
    expect(again.lastPrompt()).toEqual(["user: First", "user: Next"]);
  });
});
