// A replica as a process: node chat-host.ts <name> <port> <url>. Its agent `talker` answers `re <text>`, its workflow `asks` asks it `hold step`. The process prints its
// address, and a line for each call of the model with the messages that it was shown. A text that begins with `hold` is answered
// when the process reads a line with it.
import { createInterface } from "node:readline";
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import { defineAgent, defineConfig, defineWorkflow } from "../../src/index.ts";
import { scriptedModel } from "../../src/models.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";

const [name = "", port = "", url = ""] = process.argv.slice(2);
const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

const report = (type: string, value: unknown): void => console.log(`${type} ${JSON.stringify(value)}`);
const held = new Map<string, () => void>();
const early = new Set<string>();
createInterface(process.stdin).on("line", (text) => (held.has(text) ? held.get(text)!() : early.add(text)));

async function answer({ prompt, abortSignal: signal }: LanguageModelV4CallOptions): Promise<string> {
  const shown = prompt.flatMap(({ role, content }) =>
    role === "system" ? [] : content.flatMap((part) => (part.type === "text" ? [part.text] : [])),
  );
  const text = shown.at(-1)!;
  report("asked", { text, before: shown.slice(0, -1) });
  if (text.startsWith("hold") && !early.has(text)) {
    await new Promise<void>((resolve, reject) => {
      held.set(text, resolve);
      signal!.addEventListener("abort", () => {
        report("aborted", text);
        reject(signal!.reason as Error);
      });
    });
  }
  return `re ${text}`;
}
const model = scriptedModel(Array.from({ length: 1_000 }, () => answer));
const backend = restate({ ingress, admin, name, serve: { port: Number(port), url } });
const agent = defineAgent({ id: "talker", instructions: "Answer.", model, maxRetries: 0 });
const asks = defineWorkflow({ id: "asks" }).andAgent({ id: "ask", agent, prompt: "hold step" });
const config = defineConfig({ agents: [agent], workflows: [asks], backend });
const logger = { trace() {}, debug() {}, info() {}, warn: console.error, error: console.error, fatal: console.error };
const server = openServer(toProject(config), { mode: "start", logger });
const { url: address } = await server.listen({ port: 0 });
await server.fetch(new Request("http://localhost/doc")); // answered when the replica is registered
report("ready", address);
