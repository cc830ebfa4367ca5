// A server whose agent has two tools, on a file. `quick` returns, `slow` neither returns nor heeds its signal. Each
// call of the model and of a tool is a line of the log.
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
  const call = (toolName: string) => ({ toolCalls: [{ toolName, input: {}, toolCallId: toolName }] });
  const answer: ScriptedStep = ({ prompt }) => {
    const own = prompt.slice(prompt.findLastIndex(({ role }) => role === "user"));
    const [asked = ""] = own.flatMap(({ role, content }) =>
      role === "user" ? content.map((part) => (part.type === "text" ? part.text : "")) : [],
    );
    tell({ what: asked, shown: JSON.stringify(prompt.slice(1)) });
    if (asked !== "work") return "Hello.";
    return own.length === 1 ? { text: "First. ", ...call("quick") } : own.length === 3 ? call("slow") : "Never said.";
  };
  const model = scriptedModel(Array.from({ length: 100 }, () => answer));
  const agent = defineAgent({ id: "worker", instructions: "Work.", model, tools: { quick, slow }, maxRetries: 0 });
  return { agents: [agent] };
});
