import type { Branch, WaitInput } from "../../engine/definition/definition.ts";
import { toMs, toTime, type Duration } from "../../engine/definition/until.ts";
import { quote } from "../../core/quote.ts";
import { toIso } from "../../core/iso-time.ts";
import type { LoopContext } from "./and-for-each.ts";
import { createStep, type OwnType, type StepOptions, type TypedStep } from "./step.ts";

export interface WaitOptions extends Omit<StepOptions, "retry" | "timeout"> {
  /** Whether a resume with the `stepId` of this step ends the wait. @default false */
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
  const { id, duration, skippable = false } = options;
  const what = `andSleep ${id}: duration`;
  checkSkippable(options, `andSleep ${id}`);
  if (typeof duration !== "function") toMs(duration, what);
  return createStep({
    type: "andSleep",
    shape: "wait",
    passesOn: true,
    options,
    needs: {},
    codes: {
      "?": {
        async execute(context, { limits }) {
          const ms = toMs(typeof duration === "function" ? await duration(context) : duration, what);
          return { ms, inlineMs: limits.inlineSleepMs };
        },
      },
    },
    *run(runner, data): Branch {
      const { ms, inlineMs } = fromEntry((yield* runner.entry(id, { suffix: "?", data })).value);
      yield* runner.wait(id, { kind: "timer", until: { ms: ms! }, inlineMs, isSkippable: skippable });
      return { value: data };
    },
  });
}

/** Waits until a date. `data` does not change. */
export function andSleepUntil<Data = unknown, Input = unknown, Resume = unknown, Suspend = never>(
  options: SleepUntilOptions<Data, Input, Resume, Suspend>,
): TypedStep<Data, Input, Resume, Suspend, OwnType<Data>> {
  const { id, date, skippable = false } = options;
  const what = `andSleepUntil ${id}: date`;
  checkSkippable(options, `andSleepUntil ${id}`);
  if (typeof date !== "function") toTime(date, what);
  return createStep({
    type: "andSleepUntil",
    shape: "wait",
    passesOn: true,
    options,
    needs: {},
    codes: {
      "?": {
        async execute(context, { limits }) {
          const time = toTime(typeof date === "function" ? await date(context) : date, what);
          return { date: toIso(time), inlineMs: limits.inlineSleepMs };
        },
      },
    },
    *run(runner, data): Branch {
      const { date: found, inlineMs } = fromEntry((yield* runner.entry(id, { suffix: "?", data })).value);
      const until = { date: Date.parse(found!) };
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

/** What a wait has recorded before it began. */
interface RecordedWait extends Pick<WaitInput, "inlineMs"> {
  readonly ms?: number;
  readonly date?: string;
  readonly event?: string;
  readonly key?: string;
}
/** Reads the entry of a wait: a short text, because its code is ours. */
export const fromEntry = (value: unknown): RecordedWait => JSON.parse(value as string) as RecordedWait;
