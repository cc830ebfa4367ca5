import type { Branch, Step } from "../../engine/definition/definition.ts";
import { checkCount, type LoopContext } from "./and-for-each.ts";
import { runInner, toInnerSteps, type CodeContext, type Inner, type InnerSteps, type LastOutput } from "./inner.ts";
import { createStep, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andDoWhile()` and `andDoUntil()`. */
export type DoOptions<Data, Input, Resume, Suspend, Output, Rest extends readonly unknown[] = []> = DoRules<
  LoopContext<LastOutput<Output, Rest>, Input, Resume, Suspend>
> &
  InnerSteps<Data, Input, Resume, Suspend, Output, Rest> &
  BodyCheck<Data, LastOutput<Output, Rest>>;
/** The options of a loop beside its steps. */
export interface DoRules<Context> extends Omit<StepOptions, "retry" | "timeout"> {
  /** The condition, after each iteration. Its result is stored, so a replay does not evaluate it again. */
  condition: (context: Context) => boolean | Promise<boolean>;
  /** Max iterations. A loop that would continue after them fails. @default 10000 */
  maxIterations?: number;
}
/** A compile-time check: the first step gets the output of the iteration before. */
export type BodyCheck<Data, Output> = [Output] extends [Data]
  ? unknown
  : { step: "must return what the first step of the loop accepts as its data" };

/** Runs a step at least once, and again while a condition is true. It gets the output of the iteration before. */
export function andDoWhile<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Output = never,
  const Rest extends readonly unknown[] = [],
>(
  options: DoOptions<Data, Input, Resume, Suspend, Output, Rest>,
): TypedStep<Data, Input, Resume, Suspend, LastOutput<Output, Rest>> {
  return createLoop("andDoWhile", options as AnyLoop, true);
}

/** Runs a step at least once, and again until a condition is true. It gets the output of the iteration before. */
export function andDoUntil<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Output = never,
  const Rest extends readonly unknown[] = [],
>(
  options: DoOptions<Data, Input, Resume, Suspend, Output, Rest>,
): TypedStep<Data, Input, Resume, Suspend, LastOutput<Output, Rest>> {
  return createLoop("andDoUntil", options as AnyLoop, false);
}

type AnyLoop = DoRules<CodeContext> & Inner;

function createLoop(
  type: "andDoWhile" | "andDoUntil",
  options: AnyLoop,
  /** The value of the condition with which the loop continues. */
  continuesWith: boolean,
): Step {
  const { id, condition, maxIterations = 10_000 } = options;
  checkCount(maxIterations, `${type} ${id}: maxIterations`);
  const steps = toInnerSteps(options, `${type} ${id}`);
  return createStep({
    type,
    shape: "loop",
    items: "iteration",
    options: { ...options, steps },
    needs: { condition: "function" },
    codes: {
      "?": {
        async execute(context, { argument }) {
          const isOver = Boolean(await condition(context)) !== continuesWith;
          const iterations = (argument as number) + 1; // as `run` passes it
          if (!isOver && iterations >= maxIterations)
            throw new Error(`Loop ${id} ended after ${iterations} iterations`);
          return !isOver;
        },
      },
    },
    *run(runner, start): Branch {
      let data = start;
      for (let index = 0; ; index++) {
        ({ value: data } = yield* runInner(runner.iteration(id, index), steps, data));
        const argument = String(index);
        const { value } = yield* runner.entry(id, { iteration: index, suffix: "?", data, argument });
        if (value !== "true" /* the JSON text */) return { value: data };
      }
    },
  });
}
