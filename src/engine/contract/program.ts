import type { CreateWalk } from "../attempts/walk.ts";
import type { Concurrency } from "../definition/concurrency.ts";
import type { DescribedStep } from "../execution.ts";

/** The code of a workflow, as a backend needs it. */
export interface Program {
  readonly steps: readonly DescribedStep[];
  readonly createWalk: CreateWalk;
  /** The treatment of an execution that was running when the process died. */
  readonly recovery: "resume" | "fail";
  /** Max executions that run at the same time. */
  readonly concurrency?: Concurrency | undefined;
}
