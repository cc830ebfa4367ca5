import type { DatabaseSync } from "node:sqlite";
import { prepare, type Prepared } from "./rows.ts";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonText } from "../../../core/json.ts";
import type { ListFilter, ListPage } from "../../../engine/contract/engine.ts";
import type {
  Execution,
  ExecutionState,
  ExecutionStatus,
  ParkedBranch,
  Transition,
} from "../../../engine/execution.ts";
import { PageNumbers } from "./page-numbers.ts";
import { maxListedBytes, maxPageBytes, toTruncated, toTruncatedText } from "../../../engine/stored/listed-value.ts";

/**
 * Lists executions.
 *
 * EL1. A value over `maxListedBytes` never leaves SQLite: its size is read, and a marker takes its place.
 * EL2. Rows are read one by one. A page ends at `limit` or after `maxPageBytes` of values.
 * EL3. Other work of the process runs between two rows, at the latest after `turnMs`. No statement is open meanwhile.
 */
export class ExecutionList {
  readonly #statements: Prepared<typeof statements>;
  readonly #numbers: PageNumbers;

  constructor(db: DatabaseSync) {
    this.#numbers = new PageNumbers(db);
    this.#statements = prepare(db, statements);
  }

  async read(filter: ListFilter): Promise<ListPage> {
    const definitions = new Map<number, Execution["steps"]>();
    const states: ExecutionState[] = [];
    let bytes = 0;
    let until = performance.now() + turnMs;
    const pause = async (): Promise<void> => {
      if (performance.now() < until) return;
      await nextTurn();
      until = performance.now() + turnMs;
    };
    const numbers = await this.#numbers.find(filter, pause);
    for (const [index, number] of numbers.entries()) {
      if (index === filter.limit || bytes >= maxPageBytes) return { states, hasMore: states.length > 0 };
      await pause();
      const row = this.#statements.row.get(number) as ListedRow | undefined;
      if (!row) continue; // removed meanwhile
      bytes += sizeOf(row);
      states.push(this.#toState(number, row, definitions));
    }
    return { states, hasMore: false };
  }

  #toState(number: number, row: ListedRow, definitions: Map<number, Execution["steps"]>): ExecutionState {
    const { id, workflow: workflowId, started: startAt, user, status, epoch, definition } = row;
    const steps = definitions.get(definition) ?? this.#steps(definition);
    definitions.set(definition, steps);
    const execution: Execution = {
      id,
      workflowId,
      startAt,
      input: row.input ?? toTruncatedText(row.inputBytes),
      userId: user ?? undefined,
      steps,
      ...this.#options(number, row),
    };
    return { execution, status, epoch, last: this.#last(number, row) };
  }

  #steps(definition: number): Execution["steps"] {
    return JSON.parse((this.#statements.steps.get(definition) as { steps: string }).steps);
  }

  #options(
    number: number,
    { options, optionsBytes }: ListedRow,
  ): Pick<Execution, "context" | "conversationId" | "user" | "fork"> {
    if (optionsBytes === null) return { context: {} };
    if (options !== null) return JSON.parse(options);
    const long = this.#statements.longOptions.get(number) as unknown as LongOptions;
    const { conversationId, context, bytes, user, fork } = long;
    // A context is an object with any fields.
    const shown = context === null ? { ...toTruncated(bytes) } : (JSON.parse(context) as Record<string, unknown>);
    return {
      context: shown,
      conversationId: conversationId ?? undefined,
      user: user === null ? undefined : JSON.parse(user),
      fork: fork === null ? undefined : JSON.parse(fork),
    };
  }

  /** The last transition, with markers for long values. Of a resume, lists show nothing but its time. */
  #last(number: number, { last, lastBytes }: ListedRow): Transition | undefined {
    if (lastBytes === null) return undefined;
    if (last !== null) return JSON.parse(last);
    const long = this.#statements.longLast.get(number) as unknown as LongLast;
    const { at } = long;
    if (long.to === "running") return { at, to: "running" };
    if (long.to === "suspended")
      return {
        at,
        to: "suspended",
        ...(long.kind && { kind: long.kind }),
        reason: long.reason ?? "",
        ...this.#pending(number, long),
      };
    if (long.to === "completed") return { at, to: "completed", result: toListed(long.result, long.resultBytes) };
    if (long.message === null) return { at, to: "error", cancellation: { reason: long.cancellation ?? "" } };
    return { at, to: "error", error: { message: long.message, shown: long.shown === 1 } };
  }

  /** The branches that wait. Together they get the size of one value. */
  #pending(
    number: number,
    { branches, position, kinds, pendingCount }: LongLast,
  ): Pick<Transition & { to: "suspended" }, "pending" | "position" | "kinds" | "pendingCount"> {
    const share = Math.floor(maxListedBytes / Math.max(1, branches));
    const found = this.#statements.longPending.all(number, share) as unknown as LongBranch[];
    const pending = found.map(({ stepIndex, stepId, reason, at, data, bytes, kind, due, event }): ParkedBranch => {
      return {
        stepIndex,
        stepId,
        key: "", // only of use to a resume, which reads the state
        reason,
        ...(at !== null && { at }),
        ...(kind !== null && { kind }),
        ...(bytes !== null && { data: toListed(data, bytes) }),
        ...(due !== null && { due: JSON.parse(due) }),
        ...(event !== null && { event: JSON.parse(event) }),
      };
    });
    return {
      pending,
      ...(kinds !== null && { kinds: JSON.parse(kinds) }),
      ...(pendingCount !== null && { pendingCount }),
      position: position === null ? undefined : JSON.parse(position),
    };
  }
}

// The casts of rows in this file: their types repeat the columns in `statements`, which the compiler cannot check.
const turnMs = 5;

const toListed = (text: JsonText | null, bytes: number | null): JsonText | undefined =>
  bytes === null ? undefined : (text ?? toTruncatedText(bytes));

const sizeOf = ({ inputBytes, optionsBytes, lastBytes }: ListedRow): number =>
  [inputBytes, optionsBytes ?? 0, lastBytes ?? 0].reduce((sum, bytes) => sum + Math.min(bytes, maxListedBytes), 200);

interface ListedRow {
  id: string;
  workflow: string;
  started: number;
  definition: number;
  user: string | null;
  status: ExecutionStatus;
  epoch: number;
  input: string | null;
  inputBytes: number;
  options: string | null;
  optionsBytes: number | null;
  last: string | null;
  lastBytes: number | null;
}
interface LongOptions {
  conversationId: string | null;
  context: string | null;
  bytes: number;
  user: string | null;
  fork: string | null;
}
interface LongLast {
  at: number;
  to: Transition["to"];
  kind: "system" | null;
  reason: string | null;
  branches: number;
  kinds: string | null;
  pendingCount: number | null;
  position: string | null;
  result: string | null;
  resultBytes: number | null;
  message: string | null;
  shown: number | null;
  cancellation: string | null;
}
interface LongBranch {
  stepIndex: number;
  stepId: string;
  reason: string;
  at: number | null;
  data: string | null;
  bytes: number | null;
  kind: "person" | "timer" | "event" | null;
  due: string | null;
  event: string | null;
}

/** A text, unless it is too long. */
const short = (text: string, max: number | string = maxListedBytes): string =>
  `case when octet_length(${text}) <= ${max} then ${text} end`;
/** The beginning of a text that is too long. */
const start = (text: string, max: number | string = maxListedBytes): string =>
  `case when octet_length(${text}) <= ${max} then ${text} else substr(${text}, 1, ${max} / 4) || '…' end`;
const field = (path: string): string => `json_extract(last, '$.${path}')`;
const statements = {
  row: `select id, workflow, started, definition, user, status, epoch,
      octet_length(input) as inputBytes, ${short("input")} as input,
      octet_length(options) as optionsBytes, ${short("options")} as options,
      octet_length(last) as lastBytes, ${short("last")} as last
    from executions where number = ?`,
  steps: "select steps from definitions where definition = ?",
  longOptions: `select json_extract(options, '$.conversationId') as conversationId, octet_length(context) as bytes,
      ${short("context")} as context, ${short("user")} as user, json_extract(options, '$.fork') as fork
    from (select options, json_extract(options, '$.context') as context, json_extract(options, '$.user') as user
      from executions where number = ?)`,
  longLast: `select ${field("at")} as at, ${field("to")} as "to", ${field("kind")} as kind,
      ${start("reason")} as reason,
      json_array_length(last, '$.pending') as branches, ${field("position")} as position,
      ${field("kinds")} as kinds, ${field("pendingCount")} as pendingCount,
      octet_length(result) as resultBytes, ${short("result")} as result,
      ${start("message")} as message, ${field("error.shown")} as shown, ${start("cancellation")} as cancellation
    from (select last, ${field("reason")} as reason, ${field("result")} as result, ${field("error.message")} as message,
      ${field("cancellation.reason")} as cancellation from executions where number = ?)`,
  longPending: `select json_extract(value, '$.stepIndex') as stepIndex, json_extract(value, '$.stepId') as stepId,
      ${start("reason", "?2")} as reason, json_extract(value, '$.at') as at, octet_length(data) as bytes, ${short("data", "?2")} as data,
      json_extract(value, '$.kind') as kind, json_extract(value, '$.due') as due, json_extract(value, '$.event') as event
    from (select value, json_extract(value, '$.reason') as reason, json_extract(value, '$.data') as data
      from executions, json_each(last, '$.pending') where number = ?1)`,
};
