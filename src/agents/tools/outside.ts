import type { ModelMessage } from "ai";
import type { CallContext } from "../../core/caller.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { DurableTurn } from "../call/recorded-calls.ts";
import type { FindWorkflow } from "../describe.ts";
import type { RegisteredAgent } from "../find-agent.ts";
import type { ContinuedCall } from "./inner-approval.ts";
import type { SuspendedCall } from "./no-result.ts";

/** A tool call as the SDK makes it. The input is validated. */
export interface ToolCall {
  readonly name: string;
  readonly input: unknown;
  readonly toolCallId: string;
  readonly abortSignal: AbortSignal;
}

/** The workflows and agents that tools reach, in the current version of the config. */
export interface ToolTargets {
  readonly findWorkflow: FindWorkflow;
  findAgent(id: string): Pick<RegisteredAgent, "definition" | "program"> | undefined;
  /** Rejects if the user of a call may not start the workflow, or ask the agent. */
  admit(call: CallContext, target: ToolTarget): Promise<void>;
  /** Starts the execution of a tool call, or finds the one that was started, and waits for its end or its suspension. */
  run(start: ToolStart): Promise<ExecutionEnd | SuspendedCall>;
  /** Returns the end of an execution. Undefined while it runs or waits. */
  read(executionId: string): Promise<ExecutionEnd | undefined>;
  /** Rejects if `resume` would, and changes nothing. */
  checkResume(executionId: string, data: unknown, call: CallContext): Promise<void>;
  /** Resumes the execution of a tool call, for the user of the call. Rejects if the data is wrong. */
  resume(executionId: string, data: unknown, call: CallContext): Promise<ResumedExecution>;
}
/** The end of an execution, as a tool returns it. */
export type ExecutionEnd = { readonly output: unknown } | { readonly error: string };
export interface ResumedExecution {
  /** Waits for the end or the next suspension. */
  settled(signal: AbortSignal): Promise<ExecutionEnd | SuspendedCall>;
}
interface ToolTarget {
  readonly kind: "workflow" | "agent";
  readonly id: string;
  /** True if callers without a user may use it. */
  readonly anonymous: boolean;
}

/** The start of a workflow by a tool. */
export interface ToolStart {
  readonly workflowId: string;
  readonly input: unknown;
  readonly call: CallContext;
  /** Names the execution: the same when a crash repeats the turn. */
  readonly key: string;
  /** Ends the wait. The execution continues. */
  readonly signal: AbortSignal;
  /** Called when the execution was started or found. */
  readonly onBegun: (executionId: string) => void;
  /** The step that asks the agent. */
  readonly step: StepCaller | undefined;
  /** True if the call waits for a server that is busy or shuts down. False if such a refusal is its result. */
  readonly isDurable: boolean;
}

/** The question of a tool to another agent. */
interface ToolQuestion {
  readonly agentId: string;
  readonly prompt: string;
  readonly call: CallContext;
  readonly signal: AbortSignal;
  readonly step: StepCaller | undefined;
  /** The records of the tool call. */
  readonly turn: DurableTurn | undefined;
  /** The number of agents that wait for the answer. */
  readonly depth: number;
  /** True if the agent may end while its tools wait for approvals. */
  readonly mayWait: boolean;
  /** The answer that the agent continues. */
  readonly continued?: ContinuedCall | undefined;
}

/** The means of `workflowTool` and `agentTool`. */
export interface ToolOutside extends ToolTargets {
  /** Asks another agent. Returns its text, or its messages so far if its tools wait for approvals. */
  ask(question: ToolQuestion): Promise<string | readonly ModelMessage[]>;
}
