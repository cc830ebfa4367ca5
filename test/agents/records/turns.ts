import { join } from "node:path";
import {
  defineAgent,
  defineTool,
  defineWorkflow,
  type DefineAgentOptions,
  type StepContext,
  type Tool,
} from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { createFolder } from "../../harness/folders.ts";
import { openPlace } from "../../harness/places.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";
import { until, within } from "../../harness/waiting.ts";

export interface LifeOptions {
  readonly script: readonly ScriptedStep[];
  readonly tools?: DefineAgentOptions["tools"];
  readonly agent?: Partial<DefineAgentOptions>;
  /** The code of a step, which asks agent `a` by its runtime. @default an `andAgent` */
  readonly execute?: (context: StepContext) => unknown;
  /** Options of the step that asks the agent. */
  readonly step?: object;
  readonly limits?: object;
}

/** One server on the data of a turn. */
export interface Life {
  readonly server: TestServer;
  readonly model: ScriptedModel;
  begin(): Promise<void>;
  /** The state of the execution once it no longer runs. */
  ended(): Promise<any>;
  /** The message of the error with which the step has failed in the end. Callers are not shown it. */
  failure(): Promise<string>;
  /** Ends the server in the middle of the turn. The next one repeats the attempt in flight. */
  close(): Promise<void>;
}

/** The data of an execution whose only step asks an agent, over several servers. */
export function createTurn(): (options: LifeOptions) => Promise<Life> {
  const folder = createFolder("records");
  return async ({ script, tools = {}, agent: more, execute, step, limits }) => {
    const model = scriptedModel(script);
    const agent = defineAgent({ id: "a", instructions: "x", model, tools, maxRetries: 0, ...more });
    const begin = defineWorkflow({ id: "w" });
    const workflow = execute
      ? begin.andThen({ id: "ask", execute: (context) => execute(context as StepContext), ...step })
      : begin.andAgent({ id: "ask", agent, prompt: () => "go", ...step });
    const backend = await openPlace(join(folder, "data.db"));
    const config = { agents: [agent], workflows: [workflow], backend, server: { limits: { drainMs: 1, ...limits } } };
    const server = await startTestServer("in process", { config });
    const state = async (): Promise<any> => (await server.get("/workflows/w/executions/w/state")).body.data;
    async function ended(): Promise<any> {
      let last: any;
      await until(
        async () => (last = await state())?.status !== "running",
        () => `the end: ${JSON.stringify(last)}`,
      );
      return last;
    }
    return {
      server,
      model,
      close: server.close,
      ended,
      async failure() {
        const { status } = await ended();
        const { data } = server.logs.find(({ message }) => message === "Step failed") ?? {};
        return `${status}: ${(data?.["error"] as Error | undefined)?.message}`;
      },
      async begin() {
        const body = { input: {}, options: { executionId: "w" } };
        await server.post("/workflows/w/execute", body, { headers: { prefer: "respond-async" } });
      },
    };
  };
}

/** Starts a server, and ends it when one of its tools is held. */
export async function interrupt(live: (options: LifeOptions) => Promise<Life>, options: LifeOptions): Promise<Life> {
  const { hold, held } = createHold();
  const life = await live({ ...options, tools: { ...options.tools, hold } });
  await life.begin();
  await within(held, "the tool that holds");
  await life.close();
  return life;
}

/** A tool that never ends. */
function createHold(): { hold: Tool; held: Promise<void> } {
  const { promise: held, resolve } = Promise.withResolvers<void>();
  const execute = (): Promise<never> => {
    resolve();
    return new Promise<never>(() => {});
  };
  return { hold: defineTool({ description: "Holds", inputSchema: v.object({}), execute }), held };
}

/** The same tool in a later life. */
export const released: Tool = defineTool({ description: "Ends", inputSchema: v.object({}), execute: () => "released" });

/** The answer of a model that calls tools. */
export const calls = (...tools: (readonly [toolName: string, toolCallId: string, input?: object])[]) => ({
  toolCalls: tools.map(([toolName, toolCallId, input = {}]) => ({ toolName, toolCallId, input })),
});

/** The results of tools that a model was shown in its last call, by the id of the tool call. */
export function resultsOf({ calls: asked }: ScriptedModel): Record<string, any> {
  const parts = asked.at(-1)!.prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
  return Object.fromEntries(
    parts.flatMap((part) => (part.type === "tool-result" ? [[part.toolCallId, part.output]] : [])),
  );
}
