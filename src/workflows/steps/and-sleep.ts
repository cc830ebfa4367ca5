import type { Branch, Step, WaitInput } from "../../engine/definition/definition.ts";
import { toMs, toTime, type Duration } from "../../engine/definition/until.ts";
import { quote } from "../../core/cut.ts";
import { toIso } from "../../core/iso-time.ts";
import type { LoopContext } from "./and-for-each.ts";
import type { CodeContext } from "./inner.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

export interface WaitOptions extends Omit<StepOptions, "retry" | "timeout"> {
  /** True to let a resume with this step's `stepId` end the wait. @default false */
  skippable?: boolean;
}
/** The options of `andSleep()`. */
export interface SleepOptions<Data, Input, Resume, Suspend> extends WaitOptions {
  /** Milliseconds, a duration such as `"2d"`, or a function that returns either. At most 10 years. */
  duration: Duration | ((context: LoopContext<Data, Input, Resume, Suspend>) => Duration | Promise<Duration>);
}
/** The options of `andSleepUntil()`. */
export interface SleepUntilOptions<Data, Input, Resume, Suspend> extends WaitOptions {
  /** A date, an ISO time, or a function that returns either. It follows the clock of the machine. */
  date:
    | Date
    | string
    | ((context: LoopContext<Data, Input, Resume, Suspend>) => Date | string | Promise<Date | string>);
}
/** Waits for some time. `data` does not change. */
export function andSleep<Data = unknown, Input = unknown, Resume = unknown, Suspend = never>(
  options: SleepOptions<Data, Input, Resume, Suspend>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Data>> {
  const { id, duration } = options;
  const what = `andSleep ${id}: duration`;
  if (typeof duration !== "function") toMs(duration, what);
  return createSleep("andSleep", options, async (context) => {
    return { ms: toMs(typeof duration === "function" ? await duration(context) : duration, what) };
  });
}

/** Waits until a date. `data` does not change. */
export function andSleepUntil<Data = unknown, Input = unknown, Resume = unknown, Suspend = never>(
  options: SleepUntilOptions<Data, Input, Resume, Suspend>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Data>> {
  const { id, date } = options;
  const what = `andSleepUntil ${id}: date`;
  if (typeof date !== "function") toTime(date, what);
  return createSleep("andSleepUntil", options, async (context) => {
    return { date: toIso(toTime(typeof date === "function" ? await date(context) : date, what)) };
  });
}

type SleepEnd = { readonly ms: number; readonly date?: undefined } | { readonly ms?: undefined; readonly date: string };

function createSleep(type: string, options: WaitOptions, findEnd: (context: CodeContext) => Promise<SleepEnd>): Step {
  const { id, skippable = false } = options;
  checkSkippable(options, `${type} ${id}`);
  return createStep({
    type,
    shape: "wait",
    passesOn: true,
    options,
    needs: {},
    codes: {
      "?": {
        execute: async (context, { limits }) => ({ ...(await findEnd(context)), inlineMs: limits.inlineSleepMs }),
      },
    },
    *run(runner, data): Branch {
      const { value } = yield* runner.entry(id, { suffix: "?", data });
      const { ms, date, inlineMs } = fromEntry<SleepEnd>(value);
      const until = date === undefined ? { ms } : { date: Date.parse(date) };
      yield* runner.wait(id, { kind: "timer", until, inlineMs, isSkippable: skippable });
      return { value: data };
    },
  });
}

/** Throws if `skippable` is set and is not a boolean. */
export function checkSkippable({ skippable = false }: Pick<WaitOptions, "skippable">, what: string): void {
  if (typeof skippable === "boolean") return;
  throw new TypeError(`${what}: skippable: expected true or false, found ${quote(skippable)}`);
}

/** Reads the entry before a wait: a short text, because its code is ours. */
export const fromEntry = <T>(value: unknown): T & Pick<WaitInput, "inlineMs"> => JSON.parse(value as string);
