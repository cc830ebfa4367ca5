import { AgentError, ServeError } from "../../core/error.ts";
import type { AskAgent, StepContext } from "../../engine/definition/step-context.ts";
import { toStreamEvent } from "../answers/stream-events.ts";
import { isAgent } from "../define.ts";
import { fromSchema } from "../schemas/object-shape.ts";
import type { AgentCall } from "./question.ts";
import type { Answer, StreamPart } from "./answers/answer.ts";

/** Creates the function with which a step calls an agent: as the user, and in the conversation, of the execution. */
export function createAsk(stream: (call: AgentCall) => AsyncGenerator<StreamPart>): AskAgent {
  return async (agent, prompt, { schema, context: step, caller }) => {
    const { execution } = caller;
    if (!isAgent(agent)) throw new TypeError(`agent ${agent.id} was not created by defineAgent()`);
    const records = await caller.openRecords("");
    const toShape = schema && (async () => fromSchema(schema));
    const parts = stream({
      agent,
      // An execution id can be reused after retention has deleted the execution. `startAt` makes the name unique.
      question: { input: prompt, toShape, trusted: true, turnName: `${execution.startAt} ${step.idempotencyKey}` },
      callContext: execution,
      signal: step.signal,
      step: caller,
      turn: { id: caller.attemptId, records },
    });
    const { text, object } = await readAnswer(parts, step).catch((error: unknown) => {
      throw error instanceof ServeError ? toAgentError(error) : error;
    });
    return toShape ? object : text;
  };
}

/** Publishes the parts of the answer and returns the whole. */
async function readAnswer(parts: AsyncGenerator<StreamPart>, step: StepContext): Promise<Answer> {
  for await (const part of parts) {
    if (part.type === "error") throw part.error;
    show(step, toStreamEvent(part));
    if (part.type === "finish") return part.answer;
  }
  throw new Error("The agent returned no answer");
}

/** The error of a hook or a tool has no cause. It is the cause itself, so that its stack is logged. */
const toAgentError = (error: ServeError): AgentError =>
  new AgentError(error.status, error.message, { cause: error.cause ?? error, retry: error.retry });

/** Publishes a part of the agent's answer on the workflow's event stream. */
function show({ emit, logger }: StepContext, event: { type: string }): void {
  try {
    emit(JSON.parse(JSON.stringify(event)) as typeof event); // some SDK parts contain a `Date`
  } catch (error) {
    logger.debug("A part of the agent's answer cannot be published", { error, type: event.type });
  }
}
