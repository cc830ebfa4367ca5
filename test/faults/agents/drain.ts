import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { agentserve, type Child } from "../../harness/cli.ts";

/** A project whose model answers `so `, then waits for a file of its question's name, whatever its signal says. */
export const drainFiles = (drainMs: number): Record<string, string> => ({
  "agents.config.ts": `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainMs: ${drainMs} } } });
`,
  "workflows/slow.ts": `import { appendFileSync, existsSync } from "node:fs";
import { defineAgent, defineWorkflow } from "agentserve";
import { scriptedModel } from "agentserve/models";

async function* answer({ prompt }) {
  const said = prompt.filter(({ role }) => role !== "system").map(({ content }) => content[0].text);
  appendFileSync("asked.txt", JSON.stringify(said) + "\\n");
  yield { type: "text-start", id: "t" };
  yield { type: "text-delta", id: "t", delta: "so " };
  while (!existsSync(said.at(-1))) await new Promise((resolve) => setTimeout(resolve, 5));
  yield { type: "text-delta", id: "t", delta: "be it" };
  yield { type: "text-end", id: "t" };
  const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
  yield { type: "finish", finishReason: { unified: "stop", raw: "stop" }, usage };
}
const model = scriptedModel(new Array(1_000).fill(answer));
export const slow = defineAgent({ id: "slow", instructions: "Answer.", model, maxRetries: 0 });
export const asks = defineWorkflow({ id: "asks" })
  .andAgent({ id: "ask", agent: slow, prompt: ({ executionId }) => executionId })
  .andThen({ id: "last", execute: ({ data }) => ({ data }) });
`,
});

/** What came of a request: its body, or its events, and how long they took to begin. */
export interface Slow {
  /** Resolves when the answer has begun; of `text`, when it was asked. */
  readonly begun: Promise<unknown>;
  readonly ended: Promise<{ status: number; text: string; events: any[] }>;
}

export class SlowServer {
  readonly #folder: string;
  readonly child: Child;
  readonly url: string;

  static async start(command: string, folder: string): Promise<SlowServer> {
    const child = agentserve([command], { cwd: folder });
    const [url] = await child.waitFor(/http:\/\/\S+(?= )/);
    return new SlowServer(folder, child, url);
  }

  private constructor(folder: string, child: Child, url: string) {
    this.#folder = folder;
    this.child = child;
    this.url = url;
  }

  /** What the model was asked: all that was said before, and the question. */
  asked(): string[][] {
    const file = join(this.#folder, "asked.txt");
    return existsSync(file)
      ? readFileSync(file, "utf8")
          .trim()
          .split("\n")
          .map((line) => JSON.parse(line))
      : [];
  }

  /** The model may answer this. */
  release(...questions: string[]): void {
    for (const question of questions) writeFileSync(join(this.#folder, question), "");
  }

  /** Everybody has a conversation of their own, by this name. */
  ask(way: string, question: string, conversationId: string): Slow {
    const input = way === "chat" ? [{ role: "user", content: question }] : question;
    const response = this.post(`/agents/slow/${way}`, { input, options: { conversationId, userId: "ada" } });
    const begun = Promise.withResolvers<void>();
    const ended = response.then(async ({ status, body }) => {
      let text = "";
      for await (const chunk of body!.pipeThrough(new TextDecoderStream())) {
        text += chunk;
        if (text.includes("so ")) begun.resolve();
      }
      const frames = text.startsWith("data: ") ? text.split("\n\n").filter(Boolean) : [];
      const events = frames.map((frame) => frame.slice("data: ".length));
      return { status, text, events: events.map((event) => (event === "[DONE]" ? event : JSON.parse(event))) };
    });
    ended.catch(begun.reject);
    begun.promise.catch(() => {}); // whoever waits for the end hears of it
    return { begun: way === "text" ? Promise.resolve() : begun.promise, ended };
  }

  post(path: string, json: unknown): Promise<Response> {
    const headers = { "content-type": "application/json" };
    return fetch(this.url + path, { method: "POST", headers, body: JSON.stringify(json) });
  }

  /** SIGTERM; resolves when it is closing. */
  async close(): Promise<void> {
    this.child.process.kill("SIGTERM");
    await this.child.waitFor(/press Ctrl\+C again to force/);
  }
}
