import type { Branch, BranchEnd, CodeTools, StepCodes } from "../../engine/definition/definition.ts";
import { quote } from "../../core/cut.ts";
import type { StepContext } from "../../engine/definition/step-context.ts";
import { joinValues, toItems, wrapValue, type Value } from "../../engine/walk/value.ts";
import { toInnerSteps, runInner, type CodeContext, type Inner, type InnerSteps, type LastOutput } from "./inner.ts";
import { createStep, type StepOptions, type TypedStep } from "./step.ts";

/** The options of `andForEach()`. */
export type ForEachOptions<
  Data,
  Input,
  Resume,
  Suspend,
  Item,
  Mapped,
  Output,
  Rest extends readonly unknown[],
  OnError,
> = ForEachRules<OnError> &
  (
    | DataLoop<Data, InnerSteps<NoInfer<ItemOf<Data>>, Input, Resume, Suspend, Output, Rest>>
    | (ItemsLoop<LoopContext<Data, Input, Resume, Suspend>, Item> &
        InnerSteps<NoInfer<Item>, Input, Resume, Suspend, Output, Rest>)
    | (MapLoop<LoopContext<Data, Input, Resume, Suspend>, Item, Mapped> &
        InnerSteps<NoInfer<Mapped>, Input, Resume, Suspend, Output, Rest>)
  );
/** The options of `andForEach()` beside its items and its steps. */
export interface ForEachRules<OnError> extends Omit<StepOptions, "retry" | "timeout"> {
  /**
   * Max items that are in progress at the same time; `Infinity` means 1,000. An item that sleeps or waits is in progress.
   * @default 1
   */
  concurrency?: number;
  /**
   * With `"fail"`, the first failure aborts the other items and fails the step. With `"collect"`, the value tells for each item
   * whether it has succeeded. @default "fail"
   */
  onError?: OnError;
}
/** A loop over `data`. It does not compile where that is not an array. */
export type DataLoop<Data, Steps> = [unknown extends Data ? unknown[] : Data] extends [readonly unknown[]]
  ? { items?: undefined; map?: undefined } & Steps
  : never;
/** A loop over items. */
export interface ItemsLoop<Context, Item> {
  /** Returns the items. It is called once. @default `data`, which must be an array */
  items: (context: Context) => readonly Item[] | Promise<readonly Item[]>;
  map?: undefined;
}
/** A loop whose steps get what `map` returns. */
export interface MapLoop<Context, Item, Mapped> {
  items?: (context: Context) => readonly Item[] | Promise<readonly Item[]>;
  /** Returns the `data` for the first step of an item. @default the item */
  map: (context: Context, item: Item, index: number) => Mapped | Promise<Mapped>;
}
/** The context of loop functions. They cannot suspend. */
export type LoopContext<Data, Input, Resume, Suspend> = Omit<StepContext<Data, Input, Resume, Suspend>, "suspend">;
/** The result of an item, with `onError: "collect"`. */
export type ItemResult<Output> = { status: "success"; value: Output } | { status: "error"; error: string };
/** The value of `andForEach()`. */
export type ForEachOutput<Output, OnError> = [OnError] extends ["collect"] ? ItemResult<Output>[] : Output[];
/** The items of an array. */
export type ItemOf<Data> = unknown extends Data ? unknown : Data extends readonly (infer Item)[] ? Item : never;

/** Runs a step for each item of an array. The next `data` is the array of the outputs, in the order of the items. */
export function andForEach<
  Data = unknown,
  Input = unknown,
  Resume = unknown,
  Suspend = never,
  Item = ItemOf<Data>,
  Mapped = never,
  Output = never,
  const Rest extends readonly unknown[] = [],
  OnError extends "fail" | "collect" = "fail",
>(
  options: ForEachOptions<Data, Input, Resume, Suspend, Item, Mapped, Output, Rest, OnError>,
): TypedStep<Data, Input, Resume, Suspend, ForEachOutput<LastOutput<Output, Rest>, OnError>> {
  const { id, items, map, concurrency = 1, onError = "fail" } = options as AnyForEach;
  for (const [name, value] of Object.entries({ items, map }))
    if (value !== undefined && typeof value !== "function")
      throw new TypeError(`andForEach ${id}: ${name}: expected a function, found ${quote(value)}`);
  checkCount(concurrency, `andForEach ${id}: concurrency`);
  if (onError !== "fail" && onError !== "collect")
    throw new TypeError(`andForEach ${id}: onError: expected "fail" or "collect", found ${quote(onError)}`);
  const steps = toInnerSteps(options as Inner, `andForEach ${id}`);
  return createStep({
    type: "andForEach",
    shape: "loop",
    items: "list",
    options: { ...(options as ForEachRules<OnError>), steps },
    needs: {},
    codes: {
      "?": { execute: (context, tools) => beginLoop(options as AnyForEach, context, tools) },
      ...(map && { "<": { execute: (context, { argument }) => mapItem(map, context, argument) } }),
    } as StepCodes,
    *run(runner, data): Branch {
      const { value: own, loop } = yield* runner.entry(id, { suffix: "?", data });
      const { count, concurrency: max, onError: rule, isData } = loop!; // its code begins a loop
      const itemAt = toItems(isData ? data : own, count);
      const branch = function* (index: number): Branch {
        let item = itemAt(index);
        if (map) {
          const argument = joinValues([item, String(index)]);
          ({ value: item } = yield* runner.entry(id, { iteration: index, suffix: "<", data, argument }));
        }
        return yield* runInner(runner.iteration(id, index), steps, item);
      };
      const fork = { count, concurrency: max, branch };
      if (rule === "collect") return { value: joinValues((yield* runner.collect(fork)).map(toCollected)) };
      const outcomes = yield* runner.fork({ mode: "all", ...fork });
      return { value: joinValues(outcomes.map(({ value }) => value)) };
    },
  });
}

interface AnyForEach extends ForEachRules<"fail" | "collect">, Inner {
  readonly items?: (context: CodeContext) => unknown;
  readonly map?: MapItem;
}
type MapItem = (context: CodeContext, item: unknown, index: number) => unknown;

/** Finds the items, and begins the loop. */
async function beginLoop(options: AnyForEach, context: CodeContext, tools: CodeTools): Promise<unknown> {
  const { id, items, concurrency = 1, onError = "fail" } = options;
  const found: unknown = items ? await items(context) : context.data;
  // A value may be a secret: only its type is told.
  if (!Array.isArray(found))
    throw new TypeError(
      `andForEach ${id}: ${items ? `items: expected an array, found ${typeOf(found)}` : "expected an array"}`,
    );
  const { loopItems, loopConcurrency } = tools.limits;
  if (found.length > loopItems)
    throw new RangeError(`andForEach ${id}: ${found.length} items are more than the max of ${loopItems}`);
  const loop = { count: found.length, concurrency: Math.min(concurrency, loopConcurrency), onError };
  tools.beginLoop(items ? loop : { ...loop, isData: true });
  return items && found;
}

function mapItem(map: MapItem, context: CodeContext, argument: unknown): unknown {
  const [item, index] = argument as [unknown, number]; // as `run` has joined them
  return map(context, item, index);
}

const toCollected = (end: BranchEnd): Value =>
  "error" in end
    ? JSON.stringify({ status: "error", error: end.error.message })
    : wrapValue('{"status":"success","value":', end.value, "}");

const typeOf = (value: unknown): string => (value === null ? "null" : typeof value);

/** Throws if a count is not a whole number from 1, or Infinity. */
export function checkCount(value: unknown, what: string): void {
  if (value === Infinity || (Number.isInteger(value) && (value as number) >= 1)) return;
  throw new TypeError(`${what}: expected a whole number from 1, or Infinity, found ${quote(value)}`);
}
