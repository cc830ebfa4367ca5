import type { LanguageModelV4, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import { defineAgent, defineTool, defineWorkflow, workflowTool, type Config } from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { afterAll, beforeAll, describe } from "vitest";
import { finishPart } from "../harness/finish-part.ts";
import { createGates, type Gates } from "../harness/gates.ts";
import { startServer, type TestServer } from "../harness/server.ts";
import { openChat, type ChatTab } from "./console-chat-tab.ts";

/** The gates of the test that runs. */
let gates = createGates();

/** The echo. A word that begins with `hold` waits for the gate of that name, so that a test can look in mid-answer. */
function createModel(): LanguageModelV4 {
  const model = echoModel();
  return {
    ...model,
    async doStream(options) {
      const { stream, ...rest } = await model.doStream(options);
      const held = new TransformStream({
        async transform(part, controller) {
          const [name] = part.type === "text-delta" ? (/hold\w*/.exec(part.delta) ?? []) : [];
          if (name) await Promise.race([gates.pass(name), aborted(options.abortSignal)]);
          controller.enqueue(part);
        },
      });
      return { ...rest, stream: stream.pipeThrough(held) };
    },
  };
}
const aborted = (signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve) => signal?.addEventListener("abort", () => resolve()));

const refund = defineWorkflow({
  id: "refund",
  purpose: "Refunds an order",
  input: v.object({ order: v.string() }),
  resumeSchema: v.object({ amount: v.pipe(v.number(), v.minValue(1)) }),
}).andThen({
  id: "ask",
  execute: async ({ data, resumeData, suspend }) =>
    resumeData ? `${data.order} gets ${resumeData.amount}` : suspend(`How much for ${data.order}?`),
});

const tools = {
  weather: defineTool({
    description: "Returns the weather",
    inputSchema: v.object({ city: v.string() }),
    execute: ({ city }) => ({ city, sky: "blue" }),
  }),
  fails: defineTool({
    description: "Fails",
    inputSchema: v.object({}),
    execute: () => {
      throw new Error("no such thing");
    },
  }),
  progress: tool({
    description: "Reports its progress",
    inputSchema: v.object({}),
    async *execute() {
      yield { percent: 50 };
      await gates.pass("progress");
      yield { percent: 100 };
    },
  }),
  pay: defineTool({
    description: "Pays",
    inputSchema: v.object({ amount: v.number() }),
    needsApproval: true,
    execute: ({ amount }) => `paid ${amount}`,
  }),
  locate: tool({ description: "Where the client is", inputSchema: v.object({}) }),
  refund: workflowTool(refund),
};

/** An answer with every kind of part. */
const everyPart: LanguageModelV4StreamPart[] = [
  { type: "stream-start", warnings: [] },
  { type: "reasoning-start", id: "r" },
  { type: "reasoning-delta", id: "r", delta: "Let me think." },
  { type: "reasoning-end", id: "r" },
  { type: "source", sourceType: "url", id: "s1", url: "https://example.com/a", title: "An example" },
  { type: "file", mediaType: "text/plain", data: { type: "data", data: btoa("notes") } },
  { type: "file", mediaType: "image/gif", data: { type: "data", data: "R0lGODlhAQABAAAAACwAAAAAAQABAAACAkQBADs=" } },
  { type: "text-start", id: "t" },
  { type: "text-delta", id: "t", delta: "Hello" },
  { type: "text-end", id: "t" },
  finishPart(),
];

/** The number of calls that the model of the agent `weak` fails. */
let failures = 0;
export const config: Config = {
  console: true,
  workflows: [refund],
  agents: [
    defineAgent({
      id: "helper",
      name: "Helper",
      description: "Helps",
      instructions: "Be brief.",
      model: createModel(),
      tools,
    }),
    defineAgent({ id: "parrot", instructions: "", model: echoModel() }),
    defineAgent({ id: "rich", instructions: "", model: scriptedModel([everyPart]) }),
    defineAgent({
      id: "weak",
      instructions: "",
      maxRetries: 0,
      model: scriptedModel(
        Array.from({ length: 100 }, () => () => {
          if (failures-- > 0) throw new Error("The provider is on fire");
          return "Here I am";
        }),
      ),
    }),
  ],
  server: { limits: { chatBodyBytes: 3_000_000 } },
};

/** A server with agents and its console. */
export interface AgentsWorld {
  readonly server: TestServer;
  /** The gates of the answers of this test. */
  readonly gates: Gates;
  /** Fails the next calls of the model of the agent `weak`. */
  failModel(count: number): void;
  visit(place?: string): Promise<ChatTab>;
  /** Opens a new conversation in a new tab. */
  begin(agentId?: string): Promise<ChatTab>;
}

/** Runs a suite in Chromium against one server. */
export function describeAgents(title: string, suite: (world: AgentsWorld) => void): void {
  describe(`${title} (dev)`, () => {
    let server: TestServer;
    beforeAll(async () => {
      server = await startServer("dev", { config });
    });
    afterAll(() => server?.close());
    const visit = (place = "/agents"): Promise<ChatTab> => openChat(`${server.url}/console#${place}`);
    suite({
      get server() {
        return server;
      },
      get gates() {
        return gates;
      },
      failModel: (count) => void (failures = count),
      visit,
      async begin(agentId = "helper") {
        gates = createGates();
        const tab = await visit();
        await tab.begin(agentId);
        return tab;
      },
    });
  });
}
