import type { DatabaseSync, SQLInputValue, StatementSync } from "node:sqlite";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { JsonText } from "../../../core/json.ts";
import type { ListFilter, ListPage } from "../../../engine/backend.ts";
import type {
  Execution,
  ExecutionState,
  ExecutionStatus,
  ParkedBranch,
  Transition,
} from "../../../engine/execution.ts";
import { maxListedBytes, maxPageBytes, toTruncated, toTruncatedText } from "../../../engine/listed-value.ts";

/**
 * Lists executions.
 *
 * L1. A value over `maxListedBytes` never leaves SQLite: its size is read, and a marker takes its place.
 * L2. Rows are read one by one. A page ends at `limit` or after `maxPageBytes` of values.
 * L3. Other work of the process runs between two rows, at the latest after `turnMs`. No statement is open meanwhile.
 */
export class ExecutionList {
  readonly #statements: Record<keyof typeof statements, StatementSync>;

  constructor(db: DatabaseSync) {
    const prepared = Object.entries(statements).map(([name, sql]) => [name, db.prepare(sql)]);
    this.#statements = Object.fromEntries(prepared) as Record<keyof typeof statements, StatementSync>;
  }

  async read(filter: ListFilter): Promise<ListPage> {
    const numbers = this.#numbers(filter);
    const definitions = new Map<number, Execution["steps"]>();
    const states: ExecutionState[] = [];
    let bytes = 0;
    let until = performance.now() + turnMs;
    for (const [index, number] of numbers.entries()) {
      if (index === filter.limit || bytes >= maxPageBytes) return { states, hasMore: states.length > 0 };
      if (performance.now() >= until) {
        await nextTurn();
        until = performance.now() + turnMs;
      }
      const row = this.#statements.row.get(number) as ListedRow | undefined;
      if (!row) continue; // removed meanwhile
      bytes += sizeOf(row);
      states.push(this.#toState(number, row, definitions));
    }
    return { states, hasMore: false };
  }

  /** The executions of the page and the first of the next one. */
  #numbers({ workflowId, userId, status, limit, before }: ListFilter): number[] {
    const place = { startAt: before?.startAt ?? Number.MAX_SAFE_INTEGER, id: before?.id ?? "" };
    const values: SQLInputValue[] = [workflowId, place.startAt, place.id, limit + 1];
    if (userId !== undefined) values.push(userId);
    const of = userId === undefined ? "all" : "ofUser";
    const name = status === undefined ? of : (`${of}:${status}` as const);
    const found = this.#statements[name].all(...values) as { number: number }[];
    return found.map(({ number }) => number);
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

  #options(number: number, { options, optionsBytes }: ListedRow): Pick<Execution, "context" | "conversationId"> {
    if (optionsBytes === null) return { context: {} };
    if (options !== null) return JSON.parse(options);
    const { conversationId, context, bytes } = this.#statements.longOptions.get(number) as unknown as LongOptions;
    // The type of a context is an object of any fields.
    const shown = context === null ? { ...toTruncated(bytes) } : (JSON.parse(context) as Record<string, unknown>);
    return { context: shown, conversationId: conversationId ?? undefined };
  }

  /** The last transition, with markers for long values. Of a resume, lists show nothing but its time. */
  #last(number: number, { last, lastBytes }: ListedRow): Transition | undefined {
    if (lastBytes === null) return undefined;
    if (last !== null) return JSON.parse(last);
    const long = this.#statements.longLast.get(number) as unknown as LongLast;
    const { at } = long;
    if (long.to === "running") return { at, to: "running" };
    if (long.to === "suspended")
      return { at, to: "suspended", reason: long.reason ?? "", ...this.#pending(number, long) };
    if (long.to === "completed") return { at, to: "completed", result: toListed(long.result, long.resultBytes) };
    if (long.message === null) return { at, to: "error", cancellation: { reason: long.cancellation ?? "" } };
    return { at, to: "error", error: { message: long.message, shown: long.shown === 1 } };
  }

  /** The branches that wait. Together they get the size of one value. */
  #pending(
    number: number,
    { branches, position }: LongLast,
  ): Pick<Transition & { to: "suspended" }, "pending" | "position"> {
    const share = Math.floor(maxListedBytes / Math.max(1, branches));
    const found = this.#statements.longPending.all(number, share) as unknown as LongBranch[];
    const pending = found.map(({ stepIndex, stepId, reason, data, bytes }): ParkedBranch => {
      return { stepIndex, stepId, reason, ...(bytes !== null && { data: toListed(data, bytes) }) };
    });
    return { pending, position: position === null ? undefined : JSON.parse(position) };
  }
}

// The casts of rows in this file: their types are those of the columns in `statements`, which the compiler cannot check.
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
}
interface LongLast {
  at: number;
  to: Transition["to"];
  reason: string | null;
  branches: number;
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
  data: string | null;
  bytes: number | null;
}

/** A text, unless it is too long. */
const short = (text: string, most: number | string = maxListedBytes): string =>
  `case when octet_length(${text}) <= ${most} then ${text} end`;
/** The beginning of a text that is too long. */
const start = (text: string, most: number | string = maxListedBytes): string =>
  `case when octet_length(${text}) <= ${most} then ${text} else substr(${text}, 1, ${most} / 4) || '…' end`;
const field = (path: string): string => `json_extract(last, '$.${path}')`;
const page = (where: string, index = ""): string => `select number from executions ${index}
  where workflow = ?1 ${where} and (started, id) < (?2, ?3) order by started desc, id desc limit ?4`;

const running = "indexed by executions_running";
// The status is a part of the text: SQLite uses a partial index only if the text of the query implies its condition.
const statements = {
  all: page(""),
  "all:running": page("and status = 'running'", running),
  "all:suspended": page("and status = 'suspended'"),
  "all:completed": page("and status = 'completed'"),
  "all:error": page("and status = 'error'"),
  ofUser: page("and user = ?5"),
  "ofUser:running": page("and user = ?5 and status = 'running'", running),
  "ofUser:suspended": page("and user = ?5 and status = 'suspended'"),
  "ofUser:completed": page("and user = ?5 and status = 'completed'"),
  "ofUser:error": page("and user = ?5 and status = 'error'"),
  row: `select id, workflow, started, definition, user, status, epoch,
      octet_length(input) as inputBytes, ${short("input")} as input,
      octet_length(options) as optionsBytes, ${short("options")} as options,
      octet_length(last) as lastBytes, ${short("last")} as last
    from executions where number = ?`,
  steps: "select steps from definitions where definition = ?",
  longOptions: `select json_extract(options, '$.conversationId') as conversationId, octet_length(context) as bytes,
      ${short("context")} as context
    from (select options, json_extract(options, '$.context') as context from executions where number = ?)`,
  longLast: `select ${field("at")} as at, ${field("to")} as "to", ${start("reason")} as reason,
      json_array_length(last, '$.pending') as branches, ${field("position")} as position,
      octet_length(result) as resultBytes, ${short("result")} as result,
      ${start("message")} as message, ${field("error.shown")} as shown, ${start("cancellation")} as cancellation
    from (select last, ${field("reason")} as reason, ${field("result")} as result, ${field("error.message")} as message,
      ${field("cancellation.reason")} as cancellation from executions where number = ?)`,
  longPending: `select json_extract(value, '$.stepIndex') as stepIndex, json_extract(value, '$.stepId') as stepId,
      ${start("reason", "?2")} as reason, octet_length(data) as bytes, ${short("data", "?2")} as data
    from (select value, json_extract(value, '$.reason') as reason, json_extract(value, '$.data') as data
      from executions, json_each(last, '$.pending') where number = ?1)`,
};
