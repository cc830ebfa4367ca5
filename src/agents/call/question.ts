import type { Reservation } from "../../core/byte-budget.ts";
import type { CallContext } from "../../core/caller.ts";
import type { Conversations } from "../../engine/contract/conversations.ts";
import type { Program } from "../../engine/contract/program.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { AgentDefinition } from "../define.ts";
import type { ObjectShape } from "../schemas/object-shape.ts";
import type { ContinuedCall } from "../tools/inner-approval.ts";
import type { AgentInput } from "./history/messages.ts";
import type { TurnInput } from "./history/turn-parts.ts";
import type { AgentCallOptions, Operation } from "./operation.ts";
import type { PreparedAgent } from "./prepare.ts";
import type { DurableTurn } from "./recorded-calls.ts";

/** The input of a call. */
export interface Question extends Omit<TurnInput, "messages"> {
  readonly input: AgentInput;
  /** The field of the body that has the input, for errors. @default "input" */
  readonly field?: string | undefined;
  /** Creates the shape of an answer that must be an object. Runs within the call, because it may take a while. */
  readonly toShape?: (() => Promise<ObjectShape>) | undefined;
  /** True if turn `turnName` has not started. A new turn is refused when too many wait. @default true without a `turnName` */
  readonly isNew?: boolean | undefined;
  /** The id of the answer. @default the id of the continued message, or a new one */
  readonly answerId?: string | undefined;
  /** The answer without a conversation that the call continues. */
  readonly continued?: ContinuedCall | undefined;
  /** The schema of `toShape`, as the client sent it. */
  readonly schema?: Record<string, unknown> | undefined;
}
/** The agent, the operation and the store of one call. */
export interface CallParts {
  readonly agent: PreparedAgent;
  readonly operation: Operation;
  readonly conversations: Conversations;
  /** Max bytes of a stored conversation in a prompt. */
  readonly conversationBytes: number;
}

export interface AgentCall {
  readonly agent: AgentDefinition;
  readonly question: Question;
  readonly options?: AgentCallOptions | undefined;
  /** The user and the conversation of the call. */
  readonly callContext: CallContext;
  /** Aborted when the caller disconnects. */
  readonly signal: AbortSignal;
  /** The step of a workflow that the call comes from. @default none */
  readonly step?: StepCaller | undefined;
  /** The part of the bytes in flight that the request has. @default none, there is no request */
  readonly reservation?: Reservation | undefined;
  /** True if the call comes from a tool or a hook of another one, which waits for it. @default false */
  readonly isNested?: boolean | undefined;
  /** True if the call can wait for approvals of its tools. @default false */
  readonly mayWait?: boolean | undefined;
  /** The number of agents that wait for the answer, by `agentTool`. @default 0 */
  readonly depth?: number | undefined;
  /** The program for turns of the agent. With it, a call with a conversation survives its client and its server. */
  readonly program?: Program | undefined;
  /** The turn that a crash repeats, and its recorded calls. @default nothing is recorded */
  readonly turn?: DurableTurn | undefined;
}
/** A running call: its caller may abort it by another way than a signal. */
export type BegunCall = Omit<AgentCall, "signal"> & { readonly signal: AbortSignal | undefined };
