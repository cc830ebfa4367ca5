import { idRule, isId } from "../../core/id.ts";
import { quote } from "../../core/cut.ts";
import type { OutputOf } from "../../core/schema.ts";
import type { Branch } from "../../engine/definition/definition.ts";
import type { LoopContext } from "./and-for-each.ts";
import { longestKey } from "../../engine/stored/sent-event.ts";
import { toMs, type Duration } from "../../engine/definition/until.ts";
import { checkSkippable, fromEntry } from "./and-sleep.ts";
import { createStep, type MaybeSchema, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andWaitFor()`. */
export interface WaitForOptions<Data, Input, Resume, Suspend, Schema extends MaybeSchema, Timeout> extends Omit<
  StepOptions,
  "retry" | "timeout"
> {
  /** The name of the event. */
  event: string;
  /** The key that the event must have, or a function that returns it. @default no key */
  key?: string | ((context: LoopContext<Data, Input, Resume, Suspend>) => string | Promise<string>);
  /** The schema of the event's data. An event that does not match is left alone. */
  schema?: Schema;
  /** Milliseconds or a duration such as `"2d"`, after which the value is null. @default it waits without a limit */
  timeout?: Timeout;
  /** `"always"`: events that are older than the execution count as well. @default "start" */
  since?: "start" | "always";
  /** `"code"`: only events that were sent by `runtime.send` count. @default "anyone" */
  from?: "anyone" | "code";
  /** True to let a resume with this step's `stepId` end the wait, with the value null. @default false */
  skippable?: boolean;
}

/** The value of `andWaitFor()`: null when its time is over. */
export type WaitForOutput<Schema extends MaybeSchema, Timeout> =
  | OutputOf<Schema, unknown>
  | (Timeout extends Duration ? null : never);

/** Waits for an event that is sent to `POST /events`. Its data is the next `data`. */
export function andWaitFor<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Schema extends MaybeSchema = undefined,
  Timeout extends Duration | undefined = undefined,
>(
  options: WaitForOptions<Data, Input, Resume, Suspend, Schema, Timeout>,
): TypedStep<Data, Input, Resume, Suspend, WaitForOutput<Schema, Timeout>> {
  const { id, event, key, schema, timeout, since = "start", from = "anyone", skippable = false } = options;
  const what = `andWaitFor ${id}`;
  if (!isId(event)) throw new TypeError(`${what}: event: expected ${idRule}, found ${quote(event)}`);
  if (key !== undefined && typeof key !== "function") checkKey(key, what);
  // A misspelt `from` would otherwise let in events of anyone.
  checkOption(since, ["start", "always"], `${what}: since`);
  checkOption(from, ["anyone", "code"], `${what}: from`);
  checkSkippable(options, what);
  if (timeout !== undefined) toMs(timeout, `${what}: timeout`);
  return createStep({
    type: "andWaitFor",
    shape: "wait",
    options: { ...options, timeout: undefined },
    needs: {},
    codes: {
      "?": {
        async execute(context, { limits }) {
          const found = typeof key === "function" ? await key(context) : (key ?? "");
          checkKey(found, what);
          const ms = timeout === undefined ? undefined : toMs(timeout, `${what}: timeout`);
          return { event, key: found, ms, inlineMs: limits.inlineSleepMs };
        },
      },
      "": { execute: ({ data }) => data, outputSchema: schema },
    },
    *run(runner, data): Branch {
      const entry = yield* runner.entry(id, { suffix: "?", data });
      const { event: name = event, key: found = "", ms, inlineMs } = fromEntry<RecordedWait>(entry.value);
      const filter = {
        name,
        key: found,
        ...(since === "always" && { isAnyAge: true as const }),
        ...(from === "code" && { isFromCode: true as const }),
      };
      const until = ms === undefined ? undefined : { ms };
      const value = yield* runner.wait(id, { kind: "event", until, event: filter, inlineMs, isSkippable: skippable });
      return { value: value ?? "null" };
    },
  });
}

interface RecordedWait {
  readonly ms?: number;
  readonly event?: string;
  readonly key?: string;
}

function checkKey(key: unknown, what: string): void {
  if (typeof key === "string" && key.length <= longestKey) return;
  // It may be a secret: only its type or length is told.
  const found = typeof key === "string" ? `${key.length} characters` : key === null ? "null" : typeof key;
  throw new TypeError(`${what}: key: expected a text of at most ${longestKey} characters, found ${found}`);
}

function checkOption(value: string, names: readonly string[], what: string): void {
  if (names.includes(value)) return;
  throw new TypeError(`${what}: expected ${names.map(quote).join(" or ")}, found ${quote(value)}`);
}
