import { AgentError, ServeError, notFound } from "../../core/error.ts";
import type { AskAgent, StepContext } from "../../engine/definition/step-context.ts";
import { maxNested } from "../tools/target-tools.ts";
import { toStreamEvent } from "../answers/stream-events.ts";
import { isAgent, type AgentDefinition } from "../define.ts";
import { fromSchema } from "../schemas/object-shape.ts";
import type { ContinuedCall } from "../tools/inner-approval.ts";
import type { ToolOutside, ToolTargets } from "../tools/outside.ts";
import type { AgentCall } from "./question.ts";
import type { Answer, StreamPart } from "./answers/answer.ts";
import { openApprovals } from "./approvals/pending-calls.ts";

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
    const { text, object } = await readAnswer(parts, (part) => show(step, toStreamEvent(part))).catch(
      (error: unknown) => {
        throw error instanceof ServeError ? toAgentError(error) : error;
      },
    );
    return toShape ? object : text;
  };
}

/** Creates the function with which a tool asks another agent: as the user of the call, and without a conversation. */
export function createToolAsk(
  { findAgent }: ToolTargets,
  stream: (call: AgentCall) => AsyncGenerator<StreamPart>,
): ToolOutside["ask"] {
  return async ({ agentId, prompt, call, signal, step, turn, depth, mayWait, continued }) => {
    if (depth > maxNested) throw new ServeError(500, `More than ${maxNested} agents wait for each other`);
    const agent = findAgent(agentId)?.definition;
    if (!agent) throw notFound(`Agent ${agentId} not found`);
    if (continued) refuseGone(agent, continued);
    const { userId, user, context } = call;
    const parts = stream({
      agent,
      question: { input: prompt, trusted: true, continued },
      callContext: { userId, user, context },
      signal,
      step,
      turn,
      isNested: true,
      depth,
      mayWait,
    });
    const { text, open } = await readAnswer(parts);
    return open ?? text;
  };
}

/** Rejects if a tool that was approved no longer exists. */
function refuseGone({ tools }: AgentDefinition, { models, outcomes }: ContinuedCall): void {
  const approved = new Set(outcomes.flatMap(({ id, outcome }) => (outcome.approved ? [id] : [])));
  const gone = openApprovals(models).find(({ id, toolName }) => approved.has(id) && !Object.hasOwn(tools, toolName));
  if (gone) throw new ServeError(500, `Tool ${gone.toolName} no longer exists`);
}

/** Returns the whole answer. `onPart` gets each of its parts. */
export async function readAnswer(
  parts: AsyncGenerator<StreamPart>,
  onPart: (part: StreamPart) => void = () => {},
): Promise<Answer> {
  for await (const part of parts) {
    if (part.type === "error") throw part.error;
    onPart(part);
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
