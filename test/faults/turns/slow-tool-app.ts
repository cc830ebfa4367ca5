// A server whose agent has four tools, on a file. `quick` returns, `tidy` returns when it is aborted, `slow` neither returns
// nor heeds its signal; `risky` is the same, and needs an approval. Each call of the model and of a tool is a line of the log.
import * as v from "valibot";
import { defineAgent, defineTool } from "../../../src/index.ts";
import { scriptedModel, type ScriptedStep } from "../../../src/models.ts";
import { serveOnFile } from "../agents/agent-app.ts";

export interface StopLine {
  readonly what: string;
  /** The messages that the model was shown, as JSON. */
  readonly shown?: string;
  readonly life: number;
}

export default serveOnFile<StopLine>(({ tell }) => {
  const inputSchema = v.object({});
  const quick = defineTool({
    description: "Returns",
    inputSchema,
    execute() {
      tell({ what: "quick" });
      return "done";
    },
  });
  const slow = defineTool({
    description: "Never returns",
    inputSchema,
    execute() {
      tell({ what: "slow" });
      return new Promise<never>(() => {});
    },
  });
  const tidy = defineTool({
    description: "Returns when it is aborted",
    inputSchema,
    execute: (_, { signal }) => new Promise((done) => signal.addEventListener("abort", () => done("tidied"))),
  });
  const toCall = (toolName: string) => ({ toolName, input: {}, toolCallId: toolName });
  const call = (...names: string[]) => ({ toolCalls: names.map(toCall) });
  const answer: ScriptedStep = ({ prompt }) => {
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const [asked = ""] = own.flatMap(({ role, content }) =>
      role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")) : [],
    );
    tell({ what: asked, shown: JSON.stringify(prompt.slice(1)) });
    if (asked === "risk" && own.length === 1) return call("risky");
    if (asked !== "work") return "Hello.";
    if (own.length === 1) return { text: "First. ", ...call("quick") };
    return own.length === 3 ? call("tidy", "slow") : "Never said.";
  };
  const model = scriptedModel(Array.from({ length: 100 }, () => answer));
  const tools = { quick, tidy, slow, risky: { ...slow, needsApproval: true } };
  const agent = defineAgent({ id: "worker", instructions: "Work.", model, tools, maxRetries: 0 });
  return { agents: [agent] };
});
