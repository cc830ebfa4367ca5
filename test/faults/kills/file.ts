import { DatabaseSync } from "node:sqlite";
import { isDeepStrictEqual } from "node:util";
import { toLetterId } from "./letters.ts";
import type { CopiedEvent } from "../../../src/engine/events.ts";
import { topSteps, type WorkflowId } from "./oracle.ts";
import { late, type Data } from "./workload.ts";

interface Row {
  readonly id: string;
  readonly workflow: WorkflowId;
  readonly status: string;
  readonly last: string;
  readonly options: string | null;
  readonly key: string;
  readonly body: string;
  readonly at: number;
  /** The row of the entry before the wait, and its time. */
  readonly entry: string | null;
  readonly began: number | null;
}

/** The waits of an execution that completes, by their keys. */
const waits: Partial<Record<WorkflowId, readonly string[]>> = {
  tour: ["~call#1", "~nap#1"],
  maze: ["~dawn#1"],
  post: ["~dusk#1", "~letter#1", "~night#1", "~second#1"],
};

/**
 * Holds the file against the definitions, when all executions have ended: each wait has ended once and not too early, each
 * letter was taken once, and nothing is left that would wake an execution. Returns the number of waits.
 */
export function checkFile(path: string): number {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    for (const table of ["timers", "event_waits"]) {
      const left = db.prepare(`select * from ${table} left join executions using (number)`).all();
      if (left.length > 0) throw new Error(`${table} of executions that have ended: ${JSON.stringify(left)}`);
    }
    const open = db.prepare("select id, status from executions where status in ('running', 'suspended')").all();
    if (open.length > 0) throw new Error(`executions that have not ended: ${JSON.stringify(open)}`);
    const strange = db.prepare(strangeChildren).all();
    if (strange.length > 0) throw new Error(`children that are not one for each call: ${JSON.stringify(strange)}`);
    checkForks(db);
    // The types are those of the columns here, which the compiler cannot check.
    const rows = db.prepare(wakes).all() as unknown as Row[];
    for (const own of Map.groupBy(rows, ({ id }) => id).values()) checkExecution(own);
    return rows.filter(({ key }) => key !== null).length;
  } finally {
    db.close();
  }
}

/** Each call of a parent has one child, which knows its parent. */
const strangeChildren = `select input, group_concat(id) as ids, options from executions where workflow = 'kid' group by input
  having count(*) > 1 or json_extract(options, '$.parent.id') is not json_extract(input, '$.parent')`;
const wakes = `select executions.id, workflow, status, last, options, wake.key, wake.body, wake.at, entry.body as entry,
    entry.at as began
  from executions left join journal as wake on wake.number = executions.number and wake.kind = 'wake'
  left join journal as entry on entry.number = wake.number
    and entry.key in (replace(replace(wake.key, '~', ''), '#', '?#'), replace(wake.key, '~', '')) and entry.kind <> 'error'
    and entry.n < wake.n
  where workflow in ('tour', 'maze', 'post') order by executions.number, wake.key`;

/** A fork begins with all events of the steps that it has copied. */
function checkForks(db: DatabaseSync): void {
  const forks = "select number, workflow, options, copied from executions where options -> '$.fork' is not null";
  const rows = db.prepare("select copied from journal where number = ? and copied is not null order by n");
  for (const { number, workflow, options, copied } of db.prepare(forks).all()) {
    const { fork } = JSON.parse(String(options)) as { fork: { stepIndex: number } };
    const texts = [copied, ...rows.all(number!).map((row) => row["copied"])];
    const events = texts.flatMap((text) => JSON.parse(String(text)) as CopiedEvent[]);
    const tops = topSteps(workflow as WorkflowId).slice(0, fork.stepIndex);
    const toPaths = (found: CopiedEvent[]): string[] =>
      found.map(([path]) => path).filter((path) => tops.includes(path));
    const begun = toPaths(events.filter(([, status]) => !status));
    const ended = toPaths(events.filter(([, status]) => status));
    if (!isDeepStrictEqual([begun, ended], [tops, tops]))
      throw new Error(`a fork of ${workflow} has other events than those of ${tops}: ${texts}`);
  }
}

function checkExecution(rows: readonly Row[]): void {
  const [{ id, workflow, status, last, options }] = rows as [Row];
  const wrong = (what: string): never => {
    throw new Error(`${workflow} ${id} ${what}: ${JSON.stringify(rows)}`);
  };
  const ended = rows.filter(({ key }) => key !== null);
  const keys = ended.map(({ key }) => key);
  if (new Set(keys).size < keys.length) wrong("has ended a wait twice");
  const events = ended.flatMap(({ body }) => (JSON.parse(body) as { event?: string }).event ?? []);
  if (new Set(events).size < events.length) wrong("has taken a letter twice");
  for (const { at, began, entry } of ended) {
    if (entry === null) return wrong("has ended a wait that did not begin");
    const { ms = 0, date, due } = JSON.parse(entry) as { ms?: number; date?: string; due?: { at: number } };
    if (at < (due?.at ?? (date === undefined ? began! + ms : Date.parse(date))) - toleranceMs)
      wrong("has ended a wait too early");
  }
  if (status !== "completed") return;
  const { trail } = JSON.parse((JSON.parse(last) as { result: string }).result) as Data;
  const fork = (JSON.parse(options ?? "{}") as { fork?: { from: string; stepIndex: number } }).fork;
  // The copied result of `reply` does not depend on how it was reached.
  const isLate = trail.includes(`reply:${late}`) && (fork?.stepIndex ?? 0) <= 6;
  const expected = [...waits[workflow]!, ...(isLate ? ["~reply#1"] : [])].toSorted();
  if (!isDeepStrictEqual(keys, expected)) wrong(`has ended other waits than ${expected.join()}`);
  if (workflow !== "post") return;
  const letters = ["~letter#1", "~second#1"].map((key, index) => {
    const { event } = JSON.parse(ended.find((row) => row.key === key)!.body) as { event?: string };
    return [id, fork?.from ?? id].some((one) => event === `${toLetterId(one, index)} anonymous`);
  });
  if (!letters.every(Boolean)) wrong("has taken other letters");
}

/** The difference between the wall clock and the monotonic clock that is not a jump. */
const toleranceMs = 50;

/** Whether the file says that the code of this execution waits for others. */
export function isAbsent(path: string, id: string): boolean {
  const db = new DatabaseSync(path, { readOnly: true });
  try {
    return db.prepare("select 1 from executions where id = ? and isolated >= 3").get(id) !== undefined;
  } finally {
    db.close();
  }
}
