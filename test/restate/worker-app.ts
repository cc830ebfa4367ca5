// The agent `worker` has the tools `note`, `slow` and `pay`. The question `pay …` calls `pay`, whose workflow is suspended, and then
// says `Paid.`; the question `work …` takes three calls of the model: the first one calls `note`, the second one `slow`, the third
// one says `One two.`; the question `object …` is answered with an object. Every other one is answered with the messages that the
// model is shown. Each call of the model and of a tool is reported. A call waits at its gate until the order `open`: `slow`, `two`,
// `object`, `step` (the last step of `pay`) or `ended` (this replica is told that `pay` has ended, and has not begun the turn that
// continues the answer).
import type { LanguageModelV4CallOptions, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import * as v from "valibot";
import { defineAgent, defineTool, defineWorkflow, workflowTool } from "../../src/index.ts";
import { scriptedModel, type ScriptedAnswer } from "../../src/models.ts";
import { RestateConversations } from "../../src/backends/restate/conversations/conversations.ts";
import { finishPart } from "../harness/finish-part.ts";
import type { Hosted } from "../harness/hosted.ts";
import { patientTimeouts } from "../harness/patience.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";

const gates = new Map<string, PromiseWithResolvers<void>>();
function gate(of: string): PromiseWithResolvers<void> {
  const found = gates.get(of) ?? Promise.withResolvers<void>();
  gates.set(of, found);
  return found;
}
const inputSchema = v.object({});

async function* say(): AsyncGenerator<LanguageModelV4StreamPart> {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "1" };
  yield { type: "text-delta", id: "1", delta: "One " };
  await gate("two").promise;
  yield { type: "text-delta", id: "1", delta: "two." };
  yield { type: "text-end", id: "1" };
  yield finishPart();
}

export default function create(place: ReplicaPlace, report: (message: object) => void): Hosted {
  const toTool = (tool: string, run: () => Promise<unknown>) =>
    defineTool({
      description: `Does ${tool}`,
      inputSchema,
      async execute(_, { idempotencyKey }) {
        report({ called: `${tool} ${idempotencyKey}` });
        await run();
        return `${tool} done`;
      },
    });
  const pay = defineWorkflow({ id: "pay", input: inputSchema })
    .andThen({ id: "ask", execute: ({ resumeData, suspend }) => resumeData ?? suspend("Pay?") })
    .andThen({
      id: "last",
      async execute() {
        report({ called: "step " });
        await gate("step").promise;
        return "paid";
      },
    });
  const tools = {
    note: toTool("note", async () => {}),
    slow: toTool("slow", () => gate("slow").promise),
    pay: workflowTool(pay, { anonymous: true }),
  };
  const { prototype } = RestateConversations;
  const { continueAnswer } = prototype;
  prototype.continueAnswer = async function (...parameters) {
    report({ called: "ended " });
    await gate("ended").promise;
    return continueAnswer.apply(this, parameters);
  };

  async function answer({ prompt, abortSignal }: LanguageModelV4CallOptions): Promise<ScriptedAnswer> {
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const toTexts = (messages: typeof prompt): string[] =>
      messages.flatMap(({ role, content }) =>
        role === "system" ? [] : content.flatMap((part) => (part.type === "text" ? [part.text] : [])),
      );
    const [question = ""] = toTexts(own);
    const call = own.filter(({ role }) => role === "assistant").length;
    report({ called: `${question} ${call}` });
    abortSignal?.addEventListener("abort", () => report({ aborted: `${question} ${call}` }));
    const callTool = (toolName: string) => ({ toolCalls: [{ toolName, input: {}, toolCallId: toolName }] });
    if (question.startsWith("work")) return call === 0 ? callTool("note") : call === 1 ? callTool("slow") : say();
    if (question.startsWith("pay")) return call === 0 ? callTool("pay") : "Paid.";
    if (question.startsWith("object")) await gate("object").promise;
    return question.startsWith("object") ? '{"n":1}' : JSON.stringify(toTexts(prompt));
  }
  const model = scriptedModel(Array.from({ length: 1_000 }, () => answer));
  const agent = defineAgent({ id: "worker", instructions: "Work.", model, tools, maxRetries: 0 });
  const config = { agents: [agent], workflows: [pay], server: { limits: { drainMs: 100 } } };
  const options = { timeouts: patientTimeouts };
  return { ...serveReplica(place, config, options), orders: { open: (name: string) => gate(name).resolve() } };
}
