import type { CallContext } from "../../core/caller.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import type { DurableTurn } from "../call/recorded-calls.ts";
import type { AgentDefinition } from "../define.ts";
import type { FindWorkflow } from "./describe-tool.ts";

/** The workflows and agents that tools reach, as the version of the config has them that is served now. */
export interface ToolTargets {
  readonly findWorkflow: FindWorkflow;
  findAgent(id: string): AgentDefinition | undefined;
  /** Rejects if the user of a call may not start the workflow, or ask the agent. */
  admit(call: CallContext, target: ToolTarget): Promise<void>;
  /** Starts the execution of a tool call, or finds the one that was started, and waits for its end. */
  run(start: ToolStart): Promise<unknown>;
}
interface ToolTarget {
  readonly kind: "workflow" | "agent";
  readonly id: string;
  /** Whether callers without a user may use it. */
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
  /** The step that has asked the agent. */
  readonly step: StepCaller | undefined;
  /** True if a refusal by a busy server, or one that shuts down, is not an answer: the turn continues after it. */
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
}

/** The means of `workflowTool` and `agentTool`. */
export interface ToolOutside extends ToolTargets {
  /** Asks another agent. Returns its text. */
  ask(question: ToolQuestion): Promise<string>;
}
