import type { Program } from "../../engine/contract/program.ts";
import type { Execution } from "../../engine/execution.ts";
import { toTurnsId } from "../../engine/turn-execution.ts";
import type { AgentCall, Question } from "../call/question.ts";
import type { HeldStoredTurn } from "../call/history/open-turn.ts";
import type { AgentCallOptions } from "../call/operation.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";

/** A call that begins a turn of a stored conversation. */
export interface TurnCall extends Omit<AgentCall, "step" | "turn"> {
  readonly program: Program;
}
/** A stored turn, with everything for a repetition. */
interface StoredTurn extends Pick<
  Question,
  "input" | "field" | "regenerate" | "schema" | "at" | "outcomes" | "results"
> {
  readonly options: AgentCallOptions;
  readonly answerId: string;
}
interface NewTurn {
  readonly id: string;
  readonly answerId: string;
  readonly opened: HeldStoredTurn;
  /** The start time. */
  readonly at: number;
}

/** Returns the execution of a new turn. */
export function toExecution(
  { agent, program, question, options = {}, callContext }: TurnCall,
  { id, answerId, opened, at }: NewTurn,
): Execution {
  const { schema, input, field, regenerate } = question;
  const { isLastEnough, outcomes, results, at: askedAt } = opened;
  const sent = isLastEnough && typeof input !== "string" ? input.slice(-1) : input;
  const asked = { input: sent, field, regenerate, schema, at: askedAt, outcomes, results };
  const stored: StoredTurn = { ...asked, options, answerId };
  const { userId, user, conversationId, context } = callContext;
  return {
    id,
    workflowId: toTurnsId(agent.id),
    input: JSON.stringify(stored),
    startAt: at,
    steps: program.steps,
    userId,
    user,
    conversationId,
    context,
  };
}

/** Returns the question of a turn from another process. */
export function fromExecution(
  { id, input }: Execution,
  toShape: (schema: Record<string, unknown>) => Promise<ObjectShape>,
): { readonly question: Question; readonly options: AgentCallOptions } {
  const { schema, options, ...rest } = JSON.parse(input) as StoredTurn;
  return { options, question: { ...rest, turnName: id, isNew: false, toShape: schema && (() => toShape(schema)) } };
}
