/** The order in which a step runs what is inside it. */
export const stepShapes = ["leaf", "sequence", "choice", "all", "race", "loop", "wait", "child"] as const;
export type StepShape = (typeof stepShapes)[number];

/**
 * A step as the engine, the page and the command line know it. They never compare the name of a step type, so that a new type
 * is one file.
 */
export interface StepTraits {
  /**
   * - `leaf` runs code.
   * - `sequence` runs its steps one after the other.
   * - `choice` runs those of its steps whose condition holds: at the same time, with an array as the output; or one of them, if
   *   it `passesOn`.
   * - `all` runs its steps at the same time, until all ended.
   * - `race` runs its steps at the same time or one after the other, until the first one has succeeded.
   * - `loop` runs its steps several times. The number of the iteration follows its id in their paths: `each/3/pay`.
   * - `wait` waits for a time or an event.
   * - `child` runs the steps of another workflow. Their paths begin with its id: `child/pay`.
   */
  readonly shape: StepShape;
  /** True if its failure does not fail the step around it. */
  readonly tolerates?: true;
  /** True if its output is its input, or the input of a chosen step. */
  readonly passesOn?: true;
  /** The iterations of a loop: one for each item of a list, or one after the other while a condition holds. */
  readonly items?: "list" | "iteration";
}

/** True if the steps inside run at the same time, or several times. After its start, nothing inside it may change. */
export const hasBranches = ({ shape, passesOn }: StepTraits): boolean =>
  shape === "all" || shape === "race" || shape === "loop" || (shape === "choice" && !passesOn);

/** True if the paths of inner steps begin with the path of the step itself. */
export const hasOwnPaths = ({ shape }: Pick<StepTraits, "shape">): boolean => shape === "loop" || shape === "child";

/** True if the steps inside run one after the other. */
export const isSequential = ({ shape }: Pick<StepTraits, "shape">): boolean =>
  shape === "sequence" || shape === "loop" || shape === "child";

export const toTraits = ({ shape, tolerates, passesOn, items }: StepTraits): StepTraits => ({
  shape,
  ...(tolerates && { tolerates }),
  ...(passesOn && { passesOn }),
  ...(items && { items }),
});
