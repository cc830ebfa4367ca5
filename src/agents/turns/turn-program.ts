import type { ProgramOptions } from "../../engine/attempts/walk.ts";
import type { Program } from "../../engine/contract/program.ts";
import { createProgram } from "../../engine/attempts/live-walk.ts";
import type { WorkflowDefinition } from "../../engine/definition/definition.ts";
import type { StepCaller } from "../../engine/runtime.ts";
import { toTurnsId } from "../../engine/turn-execution.ts";
import type { AgentDefinition } from "../define.ts";

export interface TurnProgramOptions extends Omit<
  ProgramOptions,
  "workflow" | "tracer" | "metrics" | "ask" | "onFailure" | "stepTimeoutMs"
> {
  readonly agent: AgentDefinition;
  readonly run: (agent: AgentDefinition, caller: StepCaller) => Promise<void>;
}

/** Creates the program for the turns of an agent: one step. It is traced, counted and logged as an agent call. */
export function createTurnProgram({ agent, run, ...options }: TurnProgramOptions): Program {
  const workflow: WorkflowDefinition = {
    type: "workflow",
    id: toTurnsId(agent.id),
    name: agent.id,
    purpose: "",
    recovery: "resume",
    steps: [
      {
        shape: "leaf",
        type: "andAgent",
        id: stepId,
        name: stepId,
        purpose: "",
        // The model and the tools have limits of their own.
        timeout: 0,
        codes: { "": { timeout: 0, execute: (context, tools) => tools.ask(agent, "", { context }) } },
        run: (runner) => runner.entry(stepId, { data: undefined }), // the call has its input
      },
    ],
  };
  return createProgram({
    ...options,
    workflow,
    tracer: { isOn: () => false, start: () => undefined },
    stepTimeoutMs: 0,
    ask: (_agent, _prompt, { caller }) => run(agent, caller),
  });
}
const stepId = "turn";
