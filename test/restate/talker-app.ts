// The agent `talker` answers `re <text>`, the workflow `asks` asks it `hold step`. Each call of the model is reported with the
// messages that it was shown. A text that begins with `hold` is answered at the order `answer` with it.
import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { Hosted } from "../harness/hosted.ts";
import { defineAgent, defineWorkflow } from "../../src/index.ts";
import { scriptedModel } from "../../src/models.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

export default function create(place: ReplicaPlace, report: (message: object) => void): Hosted {
  const held = new Map<string, () => void>();
  const early = new Set<string>();

  async function answer({ prompt, abortSignal: signal }: LanguageModelV4CallOptions): Promise<string> {
    const shown = prompt.flatMap(({ role, content }) =>
      role === "system" ? [] : content.flatMap((part) => (part.type === "text" ? [part.text] : [])),
    );
    const text = shown.at(-1)!;
    report({ asked: { text, before: shown.slice(0, -1) } });
    if (text.startsWith("hold") && !early.has(text)) {
      await new Promise<void>((resolve, reject) => {
        held.set(text, resolve);
        signal!.addEventListener("abort", () => {
          report({ aborted: text });
          reject(signal!.reason as Error);
        });
      });
    }
    return `re ${text}`;
  }
  const model = scriptedModel(Array.from({ length: 1_000 }, () => answer));
  const agent = defineAgent({ id: "talker", instructions: "Answer.", model, maxRetries: 0 });
  const asks = defineWorkflow({ id: "asks" }).andAgent({ id: "ask", agent, prompt: "hold step" });
  return {
    ...serveReplica(place, { agents: [agent], workflows: [asks] }),
    orders: { answer: (text: string) => void (held.has(text) ? held.get(text)!() : early.add(text)) },
  };
}
