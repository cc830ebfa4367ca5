import type { Branch, ExecuteCode, Step, StepOutput, StepRunner } from "../../engine/definition/definition.ts";
import type { Value } from "../../engine/walk/value.ts";
import type { TypedStep } from "./step.ts";

/**
 * The steps inside a step: `step`, or `steps` that run one after the other. `First` is the output of the first one,
 * `Rest` are the outputs of the others.
 */
export type InnerSteps<Data, Input, Resume, Suspend, First, Rest extends readonly unknown[]> =
  | {
      /** The step to run. */
      step: TypedStep<Data, Input, Resume, Suspend, First>;
      steps?: undefined;
    }
  | {
      step?: undefined;
      /** The steps to run, one after the other. Each gets the output of the one before. */
      steps: readonly [TypedStep<Data, Input, Resume, Suspend, First>, ...StepRow<First, Input, Resume, Suspend, Rest>];
    };
/** Steps that run one after the other, by the types of their outputs. */
export type StepRow<Data, Input, Resume, Suspend, Outputs extends readonly unknown[]> = {
  [K in keyof Outputs]: TypedStep<
    K extends keyof [Data, ...Outputs] ? [Data, ...Outputs][K] : never,
    Input,
    Resume,
    Suspend,
    Outputs[K]
  >;
};
/** The output of the last inner step. */
export type LastOutput<First, Rest extends readonly unknown[]> = Rest extends readonly [...unknown[], infer Last]
  ? Last
  : First;
/** The options of a step that runs other steps: one, or several in a row. */
export interface Inner {
  readonly step?: Step | undefined;
  readonly steps?: readonly Step[] | undefined;
}

/** The steps inside a step. Throws if there is none, or both options are set. */
export function toInnerSteps({ step, steps }: Inner, what: string): readonly Step[] {
  if (step !== undefined && steps !== undefined)
    throw new TypeError(`${what}: expected either step or steps, found both`);
  if (step === undefined && steps === undefined) throw new TypeError(`${what}: step is missing`);
  if (steps !== undefined && !Array.isArray(steps)) throw new TypeError(`${what}: steps: expected an array`);
  const inner: readonly unknown[] = steps ?? [step];
  if (inner.length === 0) throw new TypeError(`${what}: steps: expected at least one step`);
  for (const one of inner) checkStep(one, `${what}: ${steps ? "steps" : "step"}`);
  return inner as readonly Step[];
}

/** Throws if a value is not a step. */
export function checkStep(value: unknown, what: string): void {
  if (typeof value === "object" && value !== null && "run" in value && "codes" in value) return;
  throw new TypeError(`${what}: expected a step, such as andThen({ … })`);
}

/** Runs steps one after the other. */
export function* runInner(runner: StepRunner, steps: readonly Step[], start: Value): Branch {
  let data = start;
  for (const step of steps) ({ value: data } = yield* runner.step(step, data));
  return { value: data };
}

/** Runs steps at the same time, each with the same data. */
export function forkSteps(
  runner: StepRunner,
  mode: "all" | "race",
  steps: readonly Step[],
  data: Value,
): Branch<readonly StepOutput[]> {
  const { length: count } = steps;
  return runner.fork({ mode, count, concurrency: count, branch: (index) => runner.step(steps[index]!, data) });
}

/** The context of a user's code whose types were checked where its step was defined. */
export type CodeContext = Parameters<ExecuteCode>[0];
