import { defineAgent, embedded, type Config, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import { createGates } from "../../harness/gates.ts";
import { startTestServer, type TestServer } from "../../harness/server.ts";

export interface Life {
  readonly server: TestServer;
  readonly model: ScriptedModel;
  /** Asks the agent `a` in a conversation, without waiting for the answer. */
  begin(input: string): Promise<{ status: number; body: any }>;
  ask(input: string): Promise<{ status: number; body: any }>;
  close(): Promise<void>;
}

const options = { userId: "ada", conversationId: "c", context: { tenant: "t" } };

/** A server on a file, with an agent `a`. A turn that does not end within the grace period continues at the next one. */
export async function live(
  file: string,
  {
    script,
    drainMs = 1,
    agent: own,
    ...config
  }: { script: ScriptedStep[]; drainMs?: number; agent?: Partial<DefineAgentOptions> } & Config,
): Promise<Life> {
  const { agent, model } = createAgent(script, own);
  const { server: more } = config;
  const server = await startTestServer("in process", {
    config: {
      agents: [agent],
      ...config,
      backend: embedded({ path: file }),
      server: { ...more, limits: { drainMs, ...more?.limits } },
    },
  });
  const ask = (input: string, headers = {}) => server.post("/agents/a/text", { input, options }, { headers });
  return { server, model, ask, close: server.close, begin: (input) => ask(input, { prefer: "respond-async" }) };
}

export function createAgent(script: ScriptedStep[], more?: Partial<DefineAgentOptions>) {
  const model = scriptedModel(script);
  return { model, agent: defineAgent({ id: "a", instructions: "x", model, maxRetries: 0, ...more }) };
}

/** A step of a script that waits for a gate, and resolves `reached` when the model is asked. */
export function held(text: string) {
  const gates = createGates();
  const step: ScriptedStep = async () => {
    await gates.pass("answer");
    return text;
  };
  return { step, reached: gates.reached("answer"), open: () => gates.open("answer") };
}

/** The texts of a prompt, without the instructions. */
export const textsOf = ({ calls }: ScriptedModel, call: number): string[] =>
  calls[call]!.prompt.flatMap(({ role, content }) =>
    role === "system" ? [] : content.flatMap((part) => (part.type === "text" ? part.text : [])),
  );
