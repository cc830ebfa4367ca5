import { DatabaseSync } from "node:sqlite";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import { replay } from "./oracle/replay.ts";
import { copiesOf, readFile, withEvents, type Row, type Stored } from "./oracle/stored.ts";

const isJoined = (row: Row | undefined): boolean => row?.kind === "wake" && JSON.parse(row.body!).isJoined === true;

/** The most rows of its own that an execution of a file has. */
export const longestOf = (path: string): number =>
  Math.max(...[...readFile(path).values()].map((stored) => stored.rows.length - copiesOf(stored)));

/**
 * A copy of a file in which the journal of every execution ends at some row, as if the process had been killed there. `toEnd`
 * returns the number of its own rows that an execution keeps; it has all of them if they are fewer.
 */
export function cutCopy(
  from: string,
  to: string,
  definition: WorkflowDefinition,
  toEnd: (rows: number) => number,
): Map<string, Stored> {
  const whole = new DatabaseSync(from);
  whole.exec("pragma synchronous = off");
  whole.prepare("vacuum into ?").run(to);
  whole.close();
  const copy = new DatabaseSync(to);
  copy.exec("pragma synchronous = off; begin");
  const remove = copy.prepare("delete from journal where n = ?");
  copy.exec("delete from timers; delete from event_waits");
  const addTimer = copy.prepare("insert into timers(clock, due, number) values(?, ?, ?)");
  const addEvent = copy.prepare("insert or ignore into event_waits(name, key, number) values(?, ?, ?)");
  const numberOf = copy.prepare("select number from executions where id = ?");
  const move = copy.prepare("update executions set status = ?, epoch = ?, last = ?, ended = ? where id = ?");
  const kept = new Map<string, Stored>();
  for (const [id, stored] of readFile(from)) {
    const copies = copiesOf(stored);
    let end = copies + Math.min(toEnd(stored.rows.length - copies), stored.rows.length - copies);
    // Written in one transaction. The waits of copied rows may have been joined to others.
    while (end > copies && isJoined(stored.rows[end - 1])) end++;
    const rows = stored.rows.slice(0, end);
    for (const { n } of stored.rows.slice(rows.length)) remove.run(n);
    const { last, ...state } = replay({ ...stored, rows }, definition).state;
    const text = last && JSON.stringify(last);
    move.run(state.status, state.epoch, text, state.ended, id);
    const { number } = numberOf.get(id) as { number: number };
    if (last?.to === "suspended") {
      for (const { at, isElapsed } of last.wake ?? []) addTimer.run(isElapsed ? 1 : 0, at, number);
      for (const { name, key = "" } of last.events ?? []) addEvent.run(name, key, number);
    }
    kept.set(id, withEvents({ ...stored, ...state, last: text, rows }));
  }
  copy.exec("commit");
  copy.close();
  return kept;
}
