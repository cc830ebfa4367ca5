import { setImmediate as nextTurn } from "node:timers/promises";
import { toIso } from "../../core/iso-time.ts";
import { fromJsonText, type JsonText } from "../../core/json.ts";
import type { CreateWalk } from "../../engine/attempts/walk.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { Execution, ExecutionState, StepPlace } from "../../engine/execution.ts";
import { maxListedBytes, maxPageBytes, toTruncated } from "../../engine/stored/listed-value.ts";
import type { ParkedStep } from "../../engine/steps/parked-step.ts";
import { readSteps } from "../../engine/steps/read-steps.ts";
import type { HistoryOptions, StepRecord } from "../../engine/steps/step-history.ts";
import type { IterationCount, StepStatus } from "../../engine/steps/step-record.ts";
import { inputRow, sizeOf, toText, type ReadRow, type Value } from "../../engine/walk/value.ts";
import { historyWithCopies, toDescribed } from "./former-executions.ts";
import { maxKeptSteps, type KeptSteps } from "./kept-steps.ts";
import { toError, type ShowErrors } from "../results.ts";

/** A started step of an execution, or an iteration of a loop. */
export interface StepView {
  /** Inside a loop it has the number of the iteration, from 0: `each/3/pay`. */
  path: string;
  /** The id of the step itself, or the number of the iteration: the last part of the path. */
  stepId: string;
  /** The type of the step; `item` for an iteration of `andForEach`, and `iteration` for one of the other loops. */
  type: string;
  status: StepStatus;
  startAt: string;
  endAt: string | null;
  attempts: { attempt: number; startAt: string; endAt: string | null; error?: string; frame?: string }[];
  input?: unknown;
  output?: unknown;
  /** Present while it waits for a person, a time or an event. */
  suspension?: StepSuspension;
  /** The time of the next attempt, after one that failed. */
  nextAttemptAt?: string;
  /** The number of iterations, in total and by status. The total of `andForEach` includes items that wait for their start. */
  count?: IterationCount;
  /** Present if the values are absent because the step has `redact: true`. */
  redacted?: true;
  /** The path of the step, or the iteration, that contains it. */
  parent: string | null;
}
interface StepSuspension {
  suspendedAt: string;
  kind: ParkedStep["kind"];
  reason: string;
  data?: unknown;
  /** The end of a sleep. */
  wakeAt?: string;
  /** The time at which a wait for a person or an event times out. */
  deadline?: string;
  /** The name and the key of the event. */
  event?: string;
  key?: string;
}

export interface StepFilter {
  readonly status?: StepStatus | undefined;
  /** Only this step, with its values whole. */
  readonly path?: string | undefined;
  /** Only the iterations of this loop, and what they contain. */
  readonly under?: string | undefined;
  /** Only steps that began after this one. */
  readonly after?: number | undefined;
  readonly limit: number;
}
export interface StepPage {
  readonly items: StepView[];
  /** The order of the last item; undefined if it is the last page. */
  readonly last?: number | undefined;
}
interface StepViewOptions {
  readonly engine: Pick<Engine, "history" | "rowText">;
  /** Keeps the steps of executions that do not change, for the next pages. @default each page reads the journal */
  readonly kept?: KeptSteps | undefined;
  readonly showErrors: ShowErrors;
  /** True if the caller may see values. */
  readonly showValues: boolean;
  /** The steps of the registered workflow: a step that is redacted by now is redacted in older executions as well. */
  readonly steps?: readonly StepPlace[] | undefined;
  /** Walks on the registered workflow. */
  readonly createWalk?: CreateWalk | undefined;
  /** The delay before an attempt, by the code of the registered workflow. */
  readonly delayOf?: HistoryOptions["delayOf"];
  /** Returns the code at which an attempt has failed, by the journal key of the attempt. @default no code is shown */
  readonly frameOf?: ((key: string) => string | undefined) | undefined;
}

/**
 * Returns a page of steps with at most 4 MB of values. Steps in loops are left out, unless the filter names them by
 * `under` or `path`, or asks for a status.
 */
export async function listSteps(
  state: ExecutionState,
  { status, path, under, after = 0, limit }: StepFilter,
  options: StepViewOptions,
): Promise<StepPage> {
  const marked = addMarks(state.execution, options.steps);
  const records = await readRecords(state, marked, { status, path, under, after, limit }, options);
  const items: StepView[] = [];
  const values = new Values(marked, options, path === undefined ? maxListedBytes : Infinity);
  for (const record of records) {
    if (items.length === limit || values.bytes > maxPageBytes) return { items, last: records[items.length - 1]!.order };
    items.push(await toView(record, options, values));
    if (items.length % turnItems === 0) await nextTurn();
  }
  return { items };
}

/** Returns the records of a page, and at least one more if there are more. */
async function readRecords(
  state: ExecutionState,
  marked: Execution,
  filter: StepFilter & { readonly after: number },
  { engine, kept, steps, createWalk, delayOf }: StepViewOptions,
): Promise<readonly StepRecord[]> {
  const { status, path, under, after, limit } = filter;
  const key = kept?.toKey(state, [status, path, under]);
  const known = key === undefined ? undefined : kept?.find(key, steps, after, limit);
  if (known) return known;
  const max = key === undefined ? limit : maxKeptSteps;
  const execution = toDescribed(marked);
  const journal = { history: () => historyWithCopies(engine, execution, createWalk) };
  const found = await readSteps(journal, execution, { ...filter, limit: max, isFolded: true, delayOf });
  if (key === undefined) return found;
  const records = found.slice(0, max); // further ones may have gaps
  kept?.add(key, { records, after, isLast: records.length === found.length, steps });
  return records;
}

/** Max items to make in one turn of the event loop. */
const turnItems = 25;

async function toView(
  record: StepRecord,
  { showErrors, showValues, frameOf }: StepViewOptions,
  values: Values,
): Promise<StepView> {
  const { node, status, startAt, endAt, attempts, input, output, suspension, nextAttemptAt, count } = record;
  const isShown = showValues && !node.isRedacted;
  const show = async <Name extends string>(name: Name, value: Value): Promise<{ [K in Name]?: unknown }> => {
    const shown = isShown ? await values.read(value) : undefined;
    return shown === undefined ? {} : ({ [name]: shown } as { [K in Name]?: unknown }); // the key is the name
  };
  return {
    path: node.path,
    stepId: node.stepId,
    type: node.type,
    status,
    startAt: toIso(startAt),
    endAt: toTime(endAt),
    attempts: attempts.map(({ attempt, startAt: from, endAt: to, error, key }) => {
      const frame = key === undefined ? undefined : frameOf?.(key);
      return {
        attempt,
        startAt: toIso(from),
        endAt: toTime(to),
        ...(error && { error: toError(error, showErrors) }),
        ...(frame !== undefined && { frame }),
      };
    }),
    ...(await show("input", input)),
    ...(await show("output", output)),
    ...(suspension && { suspension: toSuspension(suspension, node.isRedacted, await show("data", suspension.data)) }),
    ...(nextAttemptAt !== undefined && { nextAttemptAt: toIso(nextAttemptAt) }),
    ...(count && { count }),
    ...(node.isRedacted && { redacted: true }),
    parent: record.parent ?? null,
  };
}

function toSuspension(parked: ParkedStep, isRedacted: boolean, data: { data?: unknown }): StepSuspension {
  const { at, kind, reason, dueAt, event, key } = parked;
  return {
    suspendedAt: toIso(at),
    kind,
    reason,
    ...data,
    ...(dueAt !== undefined && { [kind === "timer" ? "wakeAt" : "deadline"]: toIso(dueAt) }),
    ...(event !== undefined && { event }),
    ...(key !== undefined && !isRedacted && { key }),
  };
}

const toTime = (at: number | null): string | null => (at === null ? null : toIso(at));

/** Reads the values of steps. A value over the limit is replaced by a marker. */
class Values {
  readonly #execution: Execution;
  readonly #engine: StepViewOptions["engine"];
  readonly #max: number;
  /** The size of the values so far. */
  bytes = 0;
  /** The row that was read last for one of its items: a page of items reads it once. */
  #array: { readonly row: number; readonly read: ReadRow } | undefined;

  constructor(execution: Execution, { engine }: StepViewOptions, max: number) {
    this.#execution = execution;
    this.#engine = engine;
    this.#max = max;
  }

  async read(value: Value): Promise<unknown> {
    if (value === undefined) return undefined;
    const isItem = typeof value === "object" && "path" in value; // whose size is only known when it is read
    const known = isItem ? 0 : sizeOf(value);
    if (known > this.#max) return toTruncated(known);
    const text = await this.#toText(value);
    const size = isItem && text !== undefined ? Buffer.byteLength(text) : known;
    if (size > this.#max) return toTruncated(size);
    this.bytes += size;
    return fromJsonText(text);
  }

  async #toText(value: Value): Promise<JsonText | undefined> {
    if (typeof value !== "object") return value;
    if ("path" in value) {
      if (this.#array?.row !== value.row) {
        const text = await this.#readRow(value.row);
        this.#array = { row: value.row, read: () => text };
      }
      return toText(value, this.#array.read);
    }
    if ("row" in value) return this.#readRow(value.row);
    if ("before" in value) return `${value.before}${(await this.#toText(value.value)) ?? "null"}${value.after}`;
    const items: string[] = [];
    for (const item of value.items) items.push((await this.#toText(item)) ?? "null");
    return `[${items.join()}]`;
  }

  async #readRow(row: number): Promise<JsonText | undefined> {
    return row === inputRow ? this.#execution.input : this.#engine.rowText(this.#execution.id, row);
  }
}

/** Marks the steps that the registered workflow redacts. */
function addMarks(execution: Execution, steps: readonly StepPlace[] | undefined): Execution {
  const marked = new Set(steps?.filter(([, , , mark]) => mark).map(([path]) => path));
  if (marked.size === 0) return execution;
  const all = execution.steps.map((place): StepPlace => {
    const [path, type, depth, , traits] = place;
    return marked.has(path) ? [path, type, depth, "redacted", traits] : place;
  });
  return { ...execution, steps: all };
}
