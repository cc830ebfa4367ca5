import type { Prepared } from "./rows.ts";
import { maxInlineBytes } from "../../../engine/walk/value.ts";
import { isNoTurn } from "../../../engine/turn-execution.ts";
import { maxCounted } from "../../../engine/contract/engine.ts";
import { childTable } from "./tables/child-table.ts";
import { conversationTable } from "./tables/conversation-table.ts";
import { eventTable } from "./tables/event-table.ts";
import { messageTables } from "./message-store.ts";
import { pendingCallTable } from "./tables/pending-call-table.ts";
import { recordTable } from "./tables/record-table.ts";
import { scheduleTable } from "./tables/schedule-table.ts";
import { usageTable } from "./tables/usage-table.ts";
import { waitTables } from "./tables/wait-table.ts";
import { crashesBeside, crashesOfCulprit, maxCrashes } from "../../../engine/rules/crashes.ts";

/** The format of the file. A change of the schema has a new number, and a migration that leads to it. */
export const format = 13;
// A commit costs as much as the pages that it touches. So executions have numbers (ids may be random), the journal
// grows only at its end, and definitions are stored once. In the journal, `events` follow from this row, and `seq` is the
// last event number so far. `copied` are events of copied steps in a fork.
/**
 * Only of statuses that are rare and stay: an execution without suspension and failure never touches these indexes. Running
 * ones have their own index, and most others are completed.
 */
export const rareIndexes: readonly string[] = [
  `create index executions_by_status on executions(workflow, status, started desc, id desc)
    where status = 'suspended' or status = 'error'`,
  `create index executions_by_user_and_status on executions(workflow, user, status, started desc, id desc)
    where user is not null and (status = 'suspended' or status = 'error')`,
];
export const schema: string = `
  create table definitions(definition integer primary key, steps text not null unique) strict;
  create table executions(
    number integer primary key, id text not null unique, workflow text not null, started integer not null,
    definition integer not null, input text not null, user text, options text, status text not null, epoch integer not null,
    last text, ended integer, seq integer not null, events text not null,
    crashes integer not null default 0, crash_row integer, isolated integer not null default 0, retried text, copied text
  ) strict;
  create index executions_by_workflow on executions(workflow, started desc);
  create index executions_by_user on executions(workflow, user, started desc) where user is not null;
  ${rareIndexes.join(";")};
  create index executions_running on executions(number) where status = 'running';
  create table journal(
    n integer primary key, number integer not null, key text not null, kind text not null, at integer not null,
    body text, seq integer not null, events text, copied text
  ) strict;
  create index journal_by_number on journal(number);
  create table process(id integer primary key check (id = 1), clean integer not null) strict;
  ${conversationTable}
  ${messageTables}
  ${pendingCallTable}
  ${waitTables}
  ${eventTable}
  ${childTable}
  ${recordTable}
  ${scheduleTable}
  ${usageTable}`;
const selectState = `select number, id, workflow, started, steps, input, user, options, status, epoch, last, retried
  from executions join definitions using (definition)`;

const rowColumns = `n as id, key, replace(kind, 'signal', 'command') as kind, at, coalesce(octet_length(body), 0) as bytes,
      case when octet_length(body) <= ${maxInlineBytes} or kind not in ('value', 'loop') then body
        when kind = 'loop' then substr(body, 1, instr(body, char(10))) end as body`;
const afterRow = "from journal where number = ? and n > ? order by n limit ?";
/** The number of the last row or record. */
const lastRow = `max((select coalesce(max(n), 0) from journal where journal.number = executions.number),
  (select coalesce(max(n), 0) from records where records.number = executions.number))`;
/** More than there are suspects: added to `isolated`. */
const absence = 1_000_000_000;
/** One that waits for the end of a retry delay without a drive was not interrupted. */
const isAwake = "not exists (select 1 from timers where timers.number = executions.number)";
/** Every statement on executions and their journals, except in `execution-list`. */
export const statements = {
  beginTransaction: "begin immediate",
  commit: "commit",
  rollback: "rollback",
  lastNumber: `select max(coalesce((select max(number) from executions), 0), coalesce((select max(number) from events), 0))
    as number`,
  definition: "select definition from definitions where steps = ?",
  define: "insert into definitions(steps) values(?)",
  removeDefinition: "delete from definitions where definition = ?",
  redefine: "update executions set definition = ? where number = ?",
  insertExecution: `insert into executions(number, id, workflow, started, definition, input, user, options, status, epoch, seq, events, copied)
    values(?, ?, ?, ?, ?, ?, ?, ?, 'running', 0, ?, ?, ?) on conflict(id) do nothing`,
  // An end is final: a change that was decided before it may expect the same epoch, and must not win.
  move: `update executions set status = ?, last = ?, ended = ?, epoch = epoch + 1, isolated = 0
    where number = ? and epoch = ? and ended is null`,
  // Only a failure can be retried: a cancellation has no field error.
  retry: `update executions set status = 'running', last = ?, retried = ?, ended = null, epoch = epoch + 1
    where number = ? and epoch = ? and status = 'error' and json_extract(last, '$.error') is not null`,
  find: `${selectState} where id = ?`,
  findNumber: `${selectState} where number = ?`,
  // Suspect n of a process has `isolated` = -n once it has started; 1 in files of former versions.
  lastSuspect: `select min(isolated) as last from executions
    where status = 'running' and isolated < 2 and isolated <> 0 and crash_row is ${lastRow} and ${isAwake}`,
  // As `afterCrash`. A crash counts again if the execution has made no row since the last one; see `Recovery`. It does not count for those
  // that wait for their turn (`isolated` = 2), or for other executions (more): no code of theirs has run.
  countCrashes: `update executions set crash_row = ${lastRow}, crashes = case
      when crash_row is not ${lastRow} then 1 when isolated = ? then ${crashesOfCulprit}
      when isolated then ${crashesBeside} else max(crashes, min(crashes + 1, ${maxCrashes})) end
    where status = 'running' and isolated < 2 and ${isAwake}`,
  endIsolation: "update executions set isolated = 0 where status = 'running' and isolated not in (0, 2)",
  isolate: "update executions set isolated = -? where number = ?",
  startWaiting: "update executions set isolated = 2 where number = ? and status = 'running'",
  endWaiting: "update executions set isolated = 0 where number = ? and isolated = 2",
  // An execution that was isolated is so again afterwards.
  startAbsence: `update executions set isolated = isolated + ${absence}
    where number = ? and status = 'running' and isolated < 2`,
  endAbsence: `update executions set isolated = isolated - ${absence} where number = ? and isolated > 2`,
  lastProcess: "select clean from process",
  startProcess: "insert or replace into process(id, clean) values(1, 0)",
  endProcess: "update process set clean = 1",
  // Rows since the last crash: it counts no more, also if the process was closed since.
  leftRunning: `select number, id, workflow as workflowId,
      case when crash_row is ${lastRow} then crashes else 0 end as crashes, octet_length(input)
      + (select coalesce(sum(octet_length(body)), 0) from journal where journal.number = executions.number) as bytes,
      options -> '$.concurrencyKey' as concurrencyKey, isolated = 2 as isWaiting
    from executions where status = 'running' and number > ? and number <= ? and ${isAwake} order by number limit ?`,
  newest: `select id, workflow as workflowId, status, started as startAt, ended as endAt,
      case when status = 'suspended' then json_extract(last, '$.reason') end as reason,
      case when status = 'error' then json_extract(last, '$.error.message') end as error,
      case when status = 'error' then json_extract(last, '$.cancellation.reason') end as cancelled
    from executions where ${isNoTurn} and (?1 is null or instr(?1, ',' || status || ',') > 0) and (?2 is null or workflow = ?2)
      and (?3 is null or user = ?3) and (?4 is null or substr(id, 1, length(?4)) = ?4) order by number desc limit ?5`,
  suspended: `select count(*) as count from
    (select 1 from executions where workflow = ? and status = 'suspended' limit ${maxCounted})`,
  lastRow: "select max((select coalesce(max(n), 0) from journal), (select coalesce(max(n), 0) from records)) as n",
  add: "insert into journal(n, number, key, kind, at, body, seq, events) values(?, ?, ?, ?, ?, ?, ?, ?)",
  // Commands are stored under the name that they had in the first release.
  journal: `select ${rowColumns} ${afterRow}`,
  history: `select ${rowColumns}, events, copied ${afterRow}`,
  // As `toCopiedRow`.
  copy: `insert into journal(n, number, key, kind, at, body, seq, copied)
    select ?, ?, ?, case kind when 'signal' then 'wake' else kind end, at, case kind when 'signal' then '{}' else body end, ?, ?
    from journal where n = ?`,
  row: "select replace(kind, 'signal', 'command') as kind, body from journal where n = ? and number = ifnull(?, number)",
  lastSeq: `select coalesce(
    (select seq from journal where number = ?1 order by n desc limit 1),
    (select seq from executions where number = ?1)) as seq`,
  beginning: "select number, started as at, seq, events, copied from executions where id = ?",
  events: `select n as row, at, seq, events from journal
    where number = ? and n > ? and seq > ? and events is not null order by n limit ?`,
  // One that continues by itself at some time does not expire before.
  oldest: `select number, id, started, ended,
      case when ?3 and status = 'suspended' and last -> '$.wake' is null then json_extract(last, '$.at') end as suspended
    from executions where number > ?1 order by number limit ?2`,
  usage: `select page_count as pages, freelist_count as free, page_size as size
    from pragma_page_count, pragma_freelist_count, pragma_page_size`,
  findTurn: "select number from executions where id = ? and workflow glob '@turn/*'",
  removeJournal: "delete from journal where number = ?",
  removeExecution: "delete from executions where number = ?",
};
export type Statements = Prepared<typeof statements>;
