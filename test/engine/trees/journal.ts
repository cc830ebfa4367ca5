import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import { systemClock } from "../../../src/core/clock.ts";
import { fromEventText } from "../../../src/backends/embedded/store/event-text.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import { toTransitionEvent } from "../../../src/engine/events.ts";
import { createProgram } from "../../../src/engine/attempts/live-walk.ts";
import { resolveTransition, type Execution, type Transition } from "../../../src/engine/execution.ts";
import type { EventBody, StoredEvent } from "../../../src/engine/events.ts";
import { toText, toValue } from "../../../src/engine/walk/value.ts";
import type { JournalInput } from "../../../src/engine/walk/decision.ts";
import { createTestLogger } from "../../harness/server.ts";
import { programOptions, type Book, type Luck } from "./play.ts";

export interface Row {
  n: number;
  number: number;
  key: string;
  kind: string;
  at: number;
  body: string | null;
  seq: number;
  events: string | null;
  /** Whether the transition that follows from it was made. It always is where one process decides. */
  moved?: boolean;
}
export interface Stored {
  execution: Execution;
  status: string;
  epoch: number;
  last: string | null;
  ended: number | null;
  /** What the beginning has in place of a row. */
  beginning: Pick<Row, "at" | "seq" | "events">;
  rows: Row[];
  events: StoredEvent[];
}

/** Everything that a file has about an execution. */
export function readFile(path: string): Map<string, Stored> {
  const database = new DatabaseSync(path, { readOnly: true });
  const executions = "select * from executions left join definitions using (definition) order by id";
  const found = database.prepare(executions).all() as any[];
  const journal = database.prepare("select * from journal order by n").all() as unknown as Row[];
  database.close();
  const strays = journal.filter((row) => !found.some(({ number }) => row.number === number));
  expect(strays, "rows of nobody").toEqual([]);
  return new Map(
    found.map(({ number, id, workflow, started, steps, input, options, status, epoch, last, ended, seq, events }) => {
      const place = { id, workflowId: workflow, startAt: started, steps: JSON.parse(steps), input };
      const execution: Execution = { ...place, ...(options ? JSON.parse(options) : { context: {} }) };
      const beginning = { at: started, seq, events };
      const rows = journal.filter((row) => row.number === number);
      return [id, withEvents({ execution, status, epoch, last, ended, beginning, rows })];
    }),
  );
}

/** Numbers and times of events follow from where they stand. */
export function withEvents(stored: Omit<Stored, "events">): Stored {
  const { beginning, rows, execution } = stored;
  const all = [beginning, ...rows].flatMap((row) => happenings(row).map((one) => ({ ...one, at: row.at })));
  const events = all.map(({ at, ...one }, index) => ({
    ...one,
    executionId: execution.id,
    seq: index + 1,
    timestamp: new Date(at).toISOString(),
  }));
  return { ...stored, events };
}

const happenings = ({ events }: Pick<Row, "events">): EventBody[] => (events === null ? [] : fromEventText(events));

/** What holds for the journal of every execution that has ended. */
export function checkJournal(stored: Stored, definition: WorkflowDefinition, book: Book): void {
  const { execution, beginning, rows } = stored;
  const entries = rows.filter(({ kind }) => kind !== "signal");
  expect(duplicates(rows.map(({ key }) => key)), "keys that stand in the journal twice").toEqual([]);
  for (const stable of new Set(entries.map(({ key }) => key.replace(/#\d+$/, "")))) {
    // Tries that fail, one that asks, tries that fail, one that is the last. Going back begins another key.
    const kinds = entries.filter(({ key }) => key.replace(/#\d+$/, "") === stable).map(({ kind }) => kind[0]);
    expect(kinds.join(""), `the entries of ${stable}`).toMatch(/^e*s?e*v?$/);
  }
  const late = entries.filter(({ key }) => book.late.has(`${execution.id}/${key}`));
  expect(late, "recorded, though nobody waited for them when they ended").toEqual([]);

  let seq = 0;
  const sums = [beginning, ...rows].map((row) => (seq += happenings(row).length));
  const numbers = [beginning, ...rows].map((row) => row.seq);
  expect(numbers, "after each row, the number of the last event so far").toEqual(sums);
  checkEvents(stored);
  checkReplay(stored, definition, book);
}

function checkEvents({ execution, events, status }: Stored): void {
  expect(events.filter(({ type }) => type === "workflow-start").map(({ seq }) => seq)).toEqual([1]);
  expect(events.at(-1)?.type).toBe(status === "completed" ? "workflow-complete" : "workflow-error");
  const paths = new Map(execution.steps.map(([path, type]) => [path, type]));
  const tops = execution.steps.filter(([path]) => !path.includes("/")).map(([path]) => path);
  expect(tops.length).toBeGreaterThan(0);
  const open = new Map<string, number>();
  for (const { type, from, stepType, suspension } of events) {
    if (type === "step-start" || type === "step-complete") {
      expect(stepType, `type of ${from}`).toBe(paths.get(from!));
      open.set(from!, (open.get(from!) ?? 0) + (type === "step-start" ? 1 : -1));
      expect(open.get(from!), `${from} is complete before it starts`).toBeGreaterThanOrEqual(0);
    }
    if (type === "workflow-suspended") {
      const { stepId } = suspension as { stepId: string };
      expect(paths.has(stepId), `suspension at ${JSON.stringify(stepId)}`).toBe(true);
    }
  }
}

/** The journal alone gives the stored events, row by row, and the same transitions, and runs nothing. */
function checkReplay(stored: Stored, definition: WorkflowDefinition, book: Book): void {
  const { beginning, rows, status, epoch, last, ended } = stored;
  const before = [...book.byIdempotencyKey];
  const replayed = replay(stored, definition);
  expect(replayed.events, "events of the replay, by row").toEqual([beginning, ...rows].map(happenings));
  expect([...book.byIdempotencyKey], "code that the replay ran").toEqual(before);
  expect({ status, epoch, last: JSON.parse(last!), ended }, "how it stands").toEqual(replayed.state);
  expect(["completed", "error"]).toContain(status);
}

const legal: Record<string, string[]> = {
  running: ["suspended", "completed", "error"],
  suspended: ["running", "error"],
  completed: [],
  error: [],
};

/** What rows bring about by themselves: a fresh walk is given them in order, and what it asks for is granted. */
export function replay({ execution, rows }: Pick<Stored, "execution" | "rows">, definition: WorkflowDefinition) {
  const readRow = (row: number) => (row === 0 ? execution.input : textOf(rows.find((one) => one.n === row)!));
  const host = { readRow, publishLive: () => {}, clock: systemClock };
  const walk = createProgram(programOptions(definition, createTestLogger([]))).createWalk(execution, host);
  const started = new Set<string>();
  const state = { status: "running", epoch: 0, last: null as Transition | null, ended: null as number | null };
  const events = [take()];
  for (const row of rows) {
    if (row.kind === "signal") {
      assert.equal(row.key, `!${state.epoch + 1}`, "transitions are numbered without a gap");
      const { at, to, position } = JSON.parse(row.body!);
      assert.equal(at, row.at);
      // Where several processes decide, a suspend is answered with the place that was known to the one that was asked.
      if (to === "suspended" && row.moved === undefined) assert.deepEqual(position, walk.position());
    } else {
      assert(legal[state.status]!.length > 0, `${row.key} is recorded after the end`);
      assert(started.has(row.key), `${row.key} is recorded, but the replay never starts it`);
      assert(walk.isWaitingFor(row.key), `${row.key} is recorded, but the replay does not wait for it`);
    }
    const held = state.status === "suspended" && row.kind !== "signal";
    events.push(take(toTaken(row), row.moved));
    if (held) assert.deepEqual(events.at(-1), [], `${row.key} lets something go on in a suspended execution`);
  }
  walk.release("replayed");
  return { events, state };

  function take(taken?: JournalInput, isGranted = true): EventBody[] {
    const decision = walk.next(taken);
    const transition = isGranted ? decision.transition : undefined;
    for (const { key } of decision.starts) {
      assert(!started.has(key), `${key} is started twice`);
      started.add(key);
    }
    const made = [...(taken && "command" in taken ? [taken.command] : []), ...(transition ? [transition] : [])];
    const own: EventBody[] = [...decision.events];
    for (const one of made) {
      const next = resolveTransition(one, (value) => toText(value, readRow));
      reach(plain(next));
      if (next.to !== "running") own.push(toTransitionEvent(next));
    }
    if (transition) walk.confirmTransition();
    return plain(own);
  }

  function reach(next: Transition): void {
    assert(legal[state.status]!.includes(next.to), `from ${state.status} to ${next.to}`);
    state.status = next.to;
    state.epoch++;
    state.last = next;
    state.ended = legal[next.to]!.length === 0 ? next.at : null;
  }
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

function toTaken({ n, key, kind, at, body }: Row): JournalInput {
  if (kind === "signal") return { command: JSON.parse(body!) };
  if (kind === "error") return { key, result: { at, error: JSON.parse(body!) } };
  if (kind === "suspended") return { key, result: { at, suspended: JSON.parse(body!) } };
  assert.equal(kind, "value");
  return { key, result: { at, value: toValue(body ?? undefined, n) } };
}

const textOf = ({ kind, body }: Row) => (kind === "value" ? (body ?? undefined) : JSON.parse(body!).data);

function duplicates(list: string[]): string[] {
  return list.filter((one, index) => list.indexOf(one) !== index);
}

/** A copy of a file in which the journal of every execution ends at some row, as if the process had been killed there. */
export function cutCopy(from: string, to: string, definition: WorkflowDefinition, luck: Luck): Map<string, Stored> {
  const whole = new DatabaseSync(from);
  whole.exec("pragma synchronous = off");
  whole.prepare("vacuum into ?").run(to);
  whole.close();
  const copy = new DatabaseSync(to);
  copy.exec("pragma synchronous = off; begin");
  const remove = copy.prepare("delete from journal where n = ?");
  const move = copy.prepare("update executions set status = ?, epoch = ?, last = ?, ended = ? where id = ?");
  const kept = new Map<string, Stored>();
  for (const [id, stored] of readFile(from)) {
    const rows = stored.rows.slice(0, luck.pick(stored.rows.length + 1));
    for (const { n } of stored.rows.slice(rows.length)) remove.run(n);
    const { last, ...state } = replay({ ...stored, rows }, definition).state;
    const text = last && JSON.stringify(last);
    move.run(state.status, state.epoch, text, state.ended, id);
    kept.set(id, withEvents({ ...stored, ...state, last: text, rows }));
  }
  copy.exec("commit");
  copy.close();
  return kept;
}
