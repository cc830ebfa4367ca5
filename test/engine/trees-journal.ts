import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { expect } from "vitest";
import type { WorkflowDefinition } from "../../src/engine/definition.ts";
import { createDrive } from "../../src/engine/interpreter.ts";
import type { Execution, LifecycleEvent, Run, Selected, Settled, Transition } from "../../src/engine/types.ts";
import { createTestLogger } from "../harness/server.ts";
import { driveOptions, openWorld, type Book, type Luck } from "./trees-play.ts";

export interface Row {
  n: number;
  id: string;
  key: string;
  kind: string;
  at: number;
  body: string | null;
  seq: number | null;
  events: string | null;
}
export interface Stored {
  execution: Execution;
  status: string;
  epoch: number;
  last: string | null;
  rows: Row[];
  events: LifecycleEvent[];
}

/** Everything that a file has about an execution. */
export function readFile(path: string): Map<string, Stored> {
  const database = new DatabaseSync(path, { readOnly: true });
  const found = database.prepare("select * from executions order by id").all() as any[];
  const journal = database
    .prepare("select journal.*, executions.id from journal join executions using (number) order by n")
    .all() as unknown as Row[];
  database.close();
  return new Map(
    found.map(({ id, execution, status, epoch, last }) => {
      const rows = journal.filter((row) => row.id === id);
      return [id, { execution: JSON.parse(execution), status, epoch, last, rows, events: eventsOf(rows) }];
    }),
  );
}

export const eventsOf = (rows: Row[]): LifecycleEvent[] =>
  rows.flatMap(({ events }) => (events === null ? [] : JSON.parse(events)));

const isTransition = ({ kind }: Row): boolean => kind === "moved" || kind === "signal";

/** What holds for the journal of every execution that has ended. */
export async function checkJournal(stored: Stored, definition: WorkflowDefinition, book: Book): Promise<void> {
  const { execution, rows, events, status, epoch, last } = stored;
  const entries = rows.filter((row) => row.kind !== "events" && !isTransition(row));
  const keys = rows.filter(({ kind }) => kind !== "events").map(({ key }) => key);
  expect(duplicates(keys), "keys that stand in the journal twice").toEqual([]);
  for (const stable of new Set(entries.map(({ key }) => key.replace(/#\d+$/, "")))) {
    // Tries that fail, one that asks, tries that fail, one that is the last. Going back begins another key.
    const kinds = entries.filter(({ key }) => key.replace(/#\d+$/, "") === stable).map(({ kind }) => kind[0]);
    expect(kinds.join(""), `the entries of ${stable}`).toMatch(/^e*s?e*v?$/);
  }
  const late = entries.filter(({ key }) => book.late.has(`${execution.id}/${key}`));
  expect(late, "recorded, though nobody waited for them when they ended").toEqual([]);

  const transitions = rows.filter(isTransition);
  expect(transitions.map(({ key }) => key)).toEqual(transitions.map((_, index) => `!${index + 1}`));
  const { to } = JSON.parse(transitions.at(-1)!.body!);
  expect({ status, epoch }).toEqual({ status: to, epoch: transitions.length });
  expect(withoutPosition(last)).toEqual(withoutPosition(transitions.at(-1)!.body));
  expect(["completed", "error"]).toContain(to);
  // What ends in the transaction of a cancel is still waited for: the drive has not seen it yet.
  if (transitions.at(-1)!.kind === "moved") {
    const after = rows.slice(rows.indexOf(transitions.at(-1)!) + 1);
    expect(after, "recorded after the end").toEqual([]);
  }

  expect(
    events.map(({ seq }) => seq),
    "seq of the stored events",
  ).toEqual(events.map((_, index) => index + 1));
  for (const row of rows) expect(row.seq).toBe(eventsOf([row]).at(-1)?.seq ?? null);
  checkEvents(stored);
  await checkReplay(stored, definition, book);
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

/** The journal alone gives the stored events and the same transitions, and runs nothing. */
async function checkReplay(stored: Stored, definition: WorkflowDefinition, book: Book): Promise<void> {
  const before = [...book.byIdempotencyKey];
  const replay = new Replay(stored);
  await createDrive(driveOptions(definition, createTestLogger([])))(replay);
  expect(plain(replay.events), "events of the replay").toEqual(stored.events);
  expect(replay.left(), "rows that the replay did not get to").toEqual([]);
  expect([...book.byIdempotencyKey], "code that the replay ran").toEqual(before);
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

/** A run that only hands out what is recorded. */
class Replay implements Run {
  readonly execution: Execution;
  readonly events: LifecycleEvent[] = [];
  readonly #rows: Row[];
  readonly #started = new Set<string>();
  #waiting: ReadonlyMap<string, unknown> = new Map();

  constructor({ execution, rows }: Stored) {
    this.execution = execution;
    this.#rows = rows.filter(({ kind }) => kind !== "events");
  }

  start(key: string): void {
    assert(!this.#started.has(key), `${key} is started twice`);
    this.#started.add(key);
  }

  async select(waiting: ReadonlyMap<string, unknown>): Promise<Selected> {
    this.#waiting = waiting;
    for (let row = this.#rows.shift(); row; row = this.#rows.shift()) {
      if (isTransition(row)) {
        assert(row.kind === "signal", `${row.key} ${row.body} was made by the drive, which now does not ask for it`);
        return { signal: JSON.parse(row.body!) };
      }
      assert(this.#started.has(row.key), `${row.key} is recorded, but the replay never starts it`);
      if (waiting.has(row.key)) return { key: row.key, settled: toSettled(row) };
    }
    throw new Error(`The replay goes past the journal: it waits for ${[...waiting.keys()].join()}`);
  }

  async transition(next: Transition, event: LifecycleEvent): Promise<boolean> {
    for (; this.#rows[0] && !isTransition(this.#rows[0]); this.#rows.shift())
      assert(!this.#waiting.has(this.#rows[0].key), `a transition though ${this.#rows[0].key} is there`);
    const [row] = this.#rows;
    if (!row) throw new Error(`The replay wants ${JSON.stringify(next)}, and the journal is at its end`);
    if (row.kind === "signal") return false;
    assert.deepEqual(plain(next), JSON.parse(row.body!));
    this.#rows.shift();
    this.events.push(event);
    return true;
  }

  emit(event: LifecycleEvent): void {
    this.events.push(event);
  }
  live(): void {}
  left(): Row[] {
    return this.#rows.filter((row) => isTransition(row) || this.#waiting.has(row.key) || !this.#started.has(row.key));
  }
}

function toSettled({ kind, at, body }: Row): Settled {
  if (kind === "error") return { at, error: JSON.parse(body!) };
  if (kind === "suspended") return { at, suspended: JSON.parse(body!) };
  assert.equal(kind, "value");
  return { at, value: body ?? undefined };
}

/** Where a suspension from outside met the drive is added once the drive has seen it. */
function withoutPosition(last: string | null): unknown {
  const { position: _, ...rest } = JSON.parse(last ?? "{}");
  return rest;
}

export function duplicates(list: string[]): string[] {
  return list.filter((one, index) => list.indexOf(one) !== index);
}

/** Whether the event of the last transition, made from outside, had not been stored yet. */
function owes(rows: Row[]): number {
  const at = rows.findLastIndex(isTransition);
  const row = rows[at];
  if (row?.kind !== "signal" || JSON.parse(row.body!).to === "running") return 0;
  return eventsOf(rows.slice(at)).some(({ type }) => /^workflow-(suspended|error)$/.test(type)) ? 0 : 1;
}

/** A copy of a file in which the journal of every execution ends at some row, as if the process had been killed there. */
export async function cutCopy(
  from: string,
  to: string,
  definition: WorkflowDefinition,
  book: Book,
  luck: Luck,
): Promise<Map<string, Row[]>> {
  const empty = await openWorld(to, definition, book);
  await empty.engine.close({ drainMs: 0 });
  const database = new DatabaseSync(to);
  const kept = new Map<string, Row[]>();
  for (const [id, { execution, rows }] of readFile(from)) {
    const keep = rows.slice(0, luck.pick(rows.length + 1));
    const transitions = keep.filter(isTransition);
    const last = transitions.at(-1)?.body ?? null;
    const { to: status } = last === null ? { to: "running" } : JSON.parse(last);
    database
      .prepare("insert into executions values(null, ?, ?, ?, ?, ?, ?, ?, ?)")
      .run(
        id,
        execution.workflowId,
        execution.startAt,
        JSON.stringify(execution),
        status,
        transitions.length,
        last,
        owes(keep),
      );
    const add = database.prepare(
      "insert into journal values(?, (select number from executions where id = ?), ?, ?, ?, ?, ?, ?)",
    );
    for (const row of keep) add.run(row.n, id, row.key, row.kind, row.at, row.body, row.seq, row.events);
    kept.set(id, keep);
  }
  database.close();
  return kept;
}
