import { busy, shuttingDown, type ServeError } from "../core/error.ts";
import type { Logger } from "../core/log.ts";
import type { Tracer } from "../core/trace.ts";
import type { AskAgent } from "../engine/ask.ts";
import type { Conversations } from "../engine/conversations.ts";
import { createAsk } from "./call/ask.ts";
import { generate, stream, type Answer, type AgentCall, type CallParts, type StreamPart } from "./call/call.ts";
import { Operation } from "./call/operation.ts";
import { prepareAgent, type PreparedAgent } from "./call/prepare.ts";
import type { AgentDefinition } from "./define.ts";
import type { ModelLimits } from "./models/guarded-model.ts";
import type { SchemaLimits } from "./schemas/object-shape.ts";
import { createSchemaChecker, type CheckerOptions, type SchemaChecker } from "./schemas/schema-checker.ts";
import { loadSdk } from "./sdk.ts";

interface AgentLimits extends ModelLimits, SchemaLimits, CheckerOptions {
  readonly agentCalls: number;
}
export interface AgentsOptions {
  readonly conversations: Conversations;
  readonly limits: AgentLimits;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** The folder that models named by text are looked for from. */
  readonly root: string;
}

/** Whatever agents do in one server. */
export interface Agents {
  readonly limits: AgentLimits;
  readonly checker: SchemaChecker;
  /** What fails is a `ServeError`. */
  generate(call: AgentCall): Promise<Answer>;
  /** What fails before the model has begun to answer is thrown; after that it is the last part. */
  stream(call: AgentCall): AsyncGenerator<StreamPart>;
  /** What an `andAgent` step does. */
  readonly ask: AskAgent;
  /** How many calls of an agent are being answered. */
  running(agentId: string): number;
  /** Takes no more calls; those that still run when the time is over are answered with 503. */
  close(options: { drainMs: number }): Promise<void>;
}

export function createAgents({ conversations, limits, logger, tracer, root }: AgentsOptions): Agents {
  const prepared = new WeakMap<AgentDefinition, Promise<PreparedAgent>>();
  const checker = createSchemaChecker(limits);
  /** Those that answer requests. Steps of workflows are the engine's to end: what is cut off there runs again. */
  const requests = new Set<Operation>();
  const steps = new Set<Operation>();
  let closing: PromiseWithResolvers<void> | undefined;

  function prepare(agent: AgentDefinition): Promise<PreparedAgent> {
    const known = prepared.get(agent);
    if (known) return known;
    const preparing = prepareAgent(agent, limits, root);
    prepared.set(agent, preparing);
    preparing.catch(() => prepared.delete(agent)); // what is missing may be there the next time
    return preparing;
  }

  function begin({ agent, options = {}, callContext, signal, isStep = false }: AgentCall): Operation {
    if (closing && !isStep) throw shuttingDown();
    if (!isStep && requests.size >= limits.agentCalls) {
      throw busy("Too many calls of agents", 1);
    }
    const operation = new Operation({ agent, options, callContext, logger, tracer, signal, isStep });
    (isStep ? steps : requests).add(operation);
    return operation;
  }

  function end(operation: Operation): void {
    operation.close();
    (operation.isStep ? steps : requests).delete(operation);
    checkIdle();
  }

  const toParts = async (operation: Operation): Promise<CallParts> => {
    return { agent: await prepare(operation.agent), operation, conversations };
  };

  async function generateAnswer(call: AgentCall): Promise<Answer> {
    const operation = begin(call);
    try {
      const answer = toParts(operation).then((parts) => generate(parts, call.question));
      return await operation.unlessAborted(answer);
    } catch (error) {
      throw await toFailure(operation, error);
    } finally {
      end(operation);
    }
  }

  async function* streamParts(call: AgentCall): AsyncGenerator<StreamPart> {
    const operation = begin(call);
    // Held back until the model says something: if it does not, the caller gets a plain error.
    const held: StreamPart[] = [];
    let begun = false;
    let parts: AsyncGenerator<StreamPart> | undefined;
    try {
      parts = stream(await operation.unlessAborted(toParts(operation)), call.question);
      for (;;) {
        const { done, value: part } = await operation.unlessAborted(parts.next());
        if (done) return;
        held.push(part);
        begun ||= part.type !== "start" && part.type !== "start-step";
        if (begun) yield* held.splice(0);
      }
    } catch (error) {
      const failure = await toFailure(operation, error);
      if (!begun) throw failure;
      yield { type: "error", error: failure };
    } finally {
      end(operation);
      void parts?.return(undefined).catch(() => {}); // it may be waiting for what does not end
    }
  }

  async function close({ drainMs }: { drainMs: number }): Promise<void> {
    const idle = Promise.withResolvers<void>();
    closing = idle;
    checkIdle();
    const late = setTimeout(() => {
      for (const operation of requests) operation.abort(shuttingDown());
      // A reader who takes nothing never sees the end.
      setTimeout(idle.resolve, lastWordMs);
    }, drainMs);
    await idle.promise;
    clearTimeout(late);
    await checker.close();
  }

  function checkIdle(): void {
    if (closing && requests.size === 0) closing.resolve();
  }

  return {
    limits,
    checker,
    generate: generateAnswer,
    stream: streamParts,
    ask: createAsk(streamParts),
    running: (agentId) => [...requests, ...steps].filter(({ agent }) => agent.id === agentId).length,
    close,
  };
}

const toFailure = async (operation: Operation, error: unknown): Promise<ServeError> =>
  operation.fail(await loadSdk(), error);
/** How long a call that is ended may take to say so. */
const lastWordMs = 100;
