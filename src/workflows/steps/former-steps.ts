import { describeSteps, type Execution } from "../../engine/execution.ts";
import type { StepTraits } from "../../engine/definition/step-traits.ts";
import type { DescribedExecution } from "../../engine/steps/step-history.ts";

/** The step types of versions that stored only their names. */
const formerTraits: Readonly<Record<string, StepTraits>> = {
  andThen: { shape: "leaf" },
  andAgent: { shape: "leaf" },
  andMap: { shape: "leaf" },
  andTap: { shape: "leaf", tolerates: true, passesOn: true },
  andWhen: { shape: "choice", passesOn: true },
  andBranch: { shape: "choice" },
  andAll: { shape: "all" },
  andRace: { shape: "race" },
  andForEach: { shape: "loop", items: "list" },
  andDoWhile: { shape: "loop", items: "iteration" },
  andDoUntil: { shape: "loop", items: "iteration" },
  andSleep: { shape: "wait", passesOn: true },
  andSleepUntil: { shape: "wait", passesOn: true },
  andWaitFor: { shape: "wait" },
  andWorkflow: { shape: "child" },
};

/** Adds the traits that executions of former versions were stored without. Their workflow may be gone. */
export function toDescribed(execution: Execution): DescribedExecution {
  return { ...execution, steps: describeSteps(execution.steps, (_, type) => formerTraits[type]) };
}
