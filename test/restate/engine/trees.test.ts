// Random trees of steps as in `test/engine/trees`, at a reduced size: to their end, and again from any row of their journal.
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { expect, it } from "vitest";
import { restate } from "../../../src/backends/restate/define.ts";
import { toEventText } from "../../../src/backends/embedded/store/tables/journal-table.ts";
import type { RegisterStatus } from "../../../src/backends/restate/register/register-state.ts";
import { toIndex } from "../../../src/backends/restate/list/list-index.ts";
import { toRowKey, type StoredRow } from "../../../src/backends/restate/drive/rows.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import type { ExecutionState } from "../../../src/engine/execution.ts";
import { check, input, playAll } from "../../engine/trees/check.ts";
import { toWorkflow } from "../../engine/trees/code.ts";
import { plainTree as tree, print, type Tree } from "../../engine/trees/make.ts";
import { Luck } from "../../engine/trees/luck.ts";
import { outcomesOf } from "../../engine/trees/oracle/outcomes.ts";
import { replay } from "../../engine/trees/oracle/replay.ts";
import { copiesOf, withEvents, type Row, type Stored } from "../../engine/trees/oracle/stored.ts";
import { Book } from "../../engine/trees/play/book.ts";
import { noTally, type Tally } from "../../engine/trees/play/tally.ts";
import { openWorldOn, unknownExtents } from "../../engine/trees/play/world.ts";
import { bySize } from "../../harness/size.ts";
import { patientTimeouts } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { freePort } from "../restate-server.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;
const timeout = 600_000;

async function post<T>(url: string, body: unknown): Promise<T> {
  const headers = { "content-type": "application/json", accept: "application/json" };
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await response.text();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${text}`);
  return text === "" ? (undefined as T) : (JSON.parse(text) as T);
}

interface Journal {
  readonly state: ExecutionState;
  readonly rows: readonly StoredRow[];
}
/** Reads what Restate has of an execution. No replica is asked. */
async function readState(service: string, key: string): Promise<Map<string, any>> {
  const query = `select key, value_utf8 from state where service_name = '${service}' and service_key = '${key}'`;
  const { rows } = await post<{ rows: { key: string; value_utf8: string }[] }>(`${admin}/query`, { query });
  return new Map(rows.map((row) => [row.key, JSON.parse(row.value_utf8)]));
}
async function readRows(name: string, id: string): Promise<StoredRow[]> {
  const found = await readState(`${name}.drive`, id);
  const rows = [...found].filter(([key]) => key.startsWith("r")).map(([, row]) => row as StoredRow);
  return rows.toSorted((one, other) => one.number - other.number);
}
async function readJournal(name: string, id: string): Promise<Journal> {
  const found = await readState(name, id);
  const { status, epoch } = found.get("status") as RegisterStatus;
  const state = { execution: found.get("execution"), status, epoch, last: found.get("last") };
  return { state, rows: await readRows(name, id) };
}

/** The journal as the checks of the embedded engine want it. */
function toStored({ state, rows }: Journal): Stored {
  const { execution, status, epoch, last } = state;
  const [start, ...rest] = rows.map(({ row, at, seq, events, copied, moved = false, number }): Row => {
    const { key = "", kind = "", body = null } = row ?? {};
    const text = events.length > 0 ? toEventText(events) : null;
    return {
      n: number,
      number: 0,
      key,
      kind: kind === "command" ? "signal" : kind,
      at,
      body,
      seq,
      events: text,
      copied: copied ? JSON.stringify(copied) : null,
      moved,
    };
  });
  const ended = status === "completed" || status === "error" ? last!.at : null;
  // The start of a fork and the rows that it copies are one change. If it ends at once, the last of them has the event.
  const copied = copiesOf({ execution, rows: rest });
  const all = [start!, ...rest.slice(0, copied)];
  const { seq } = all.at(-1)!;
  const events = JSON.stringify(all.flatMap((row) => JSON.parse(row.events ?? "[]") as unknown[]));
  const later = rest.map((row, index) => (index < copied ? { ...row, seq, events: null } : row));
  const beginning = { at: start!.at, seq, events, copied: start!.copied };
  return withEvents({ execution, status, epoch, last: JSON.stringify(last), ended, beginning, rows: later });
}

/** Executions whose journal ends at some row, as if their drive had been killed there. */
async function cut(
  journals: ReadonlyMap<string, Journal>,
  name: string,
  definition: WorkflowDefinition,
  luck: Luck,
): Promise<Map<string, Stored>> {
  const kept = new Map<string, Stored>();
  for (const [id, { state, rows: all }] of journals) {
    // The start and the copied rows of a fork: nothing can be killed before they are there.
    const first = 1 + copiesOf(toStored({ state, rows: all }));
    const rows = all.slice(0, first + luck.pick(all.length - first + 1));
    const { status, epoch } = rows.at(-1)!;
    const last = replay(toStored({ state, rows }), definition).state.last ?? undefined;
    const isDriven = status === "running";
    const now: RegisterStatus = { status, epoch, ...(isDriven && { drive: "inv_gone" }) };
    const index = toIndex(state.execution, status);
    const registered = { execution: state.execution, status: now, index, ...(last && { last }) };
    await setState(name, id, registered);
    await setState(`${name}.drive`, id, Object.fromEntries(rows.map((row) => [toRowKey(row.number), row])));
    await until(async () => (await readRows(name, id)).length === rows.length, "the state to be set");
    if (isDriven) await post(`${ingress}/${name}/${id}/redrive`, { gone: "inv_gone" });
    kept.set(id, toStored({ state: { ...state, status, epoch, last }, rows }));
  }
  return kept;
}
function setState(service: string, key: string, state: Record<string, unknown>): Promise<void> {
  const toBytes = (value: unknown): number[] => [...Buffer.from(JSON.stringify(value))];
  const bytes = Object.fromEntries(Object.entries(state).map(([name, value]) => [name, toBytes(value)]));
  return post(`${admin}/services/${service}/state`, { object_key: key, new_state: bytes });
}

const newPlace = async () => ({ name: `trees-${randomUUID()}`, port: await freePort() });
async function openTree({ name, port }: { name: string; port: number }, definition: WorkflowDefinition, book: Book) {
  const backend = restate({ ingress, admin, name, serve: { port }, timeouts: patientTimeouts });
  const world = await openWorldOn(backend, unknownExtents, definition, book);
  // The port may have been that of another server, which Restate still calls.
  const complaints = () => world.complaints().filter(({ message }) => !message.includes("No service found"));
  return { ...world, complaints, hearsLate: true };
}

async function readAll(name: string, { executions }: Book): Promise<Map<string, Journal>> {
  return new Map(await Promise.all(executions.map(async (id) => [id, await readJournal(name, id)] as const)));
}
const toAllStored = (journals: ReadonlyMap<string, Journal>): Map<string, Stored> =>
  new Map([...journals].map(([id, journal]) => [id, toStored(journal)]));

async function checkTree(nodes: Tree, luck: Luck, tally: Tally, cancels: boolean): Promise<void> {
  const expected = { tree: nodes, outcomes: outcomesOf(nodes, JSON.stringify(input)) };
  const book = new Book();
  const definition = toWorkflow("tree", nodes, book);
  const place = await newPlace();
  const seen = await playAll(await openTree(place, definition, book), luck, cancels, tally, true);
  const whole = await readAll(place.name, book);
  check(toAllStored(whole), definition, book, expected, tally, seen, new Map());

  const cutPlace = await newPlace();
  book.clear();
  const world = await openTree(cutPlace, definition, book);
  const kept = await cut(whole, cutPlace.name, definition, luck);
  const seenAgain = await playAll(world, luck, cancels, tally, false);
  check(toAllStored(await readAll(cutPlace.name, book)), definition, book, expected, tally, seenAgain, kept);
}

it.each([false, true])(
  "runs any tree to a legal end, and continues from any row of its journal (with cancels: %s)",
  { timeout },
  async (cancels) => {
    const tally = noTally();
    await fc.assert(
      fc.asyncProperty(tree, fc.nat(), async (nodes, seed) => {
        await checkTree(nodes, new Luck(seed), tally, cancels).catch((error: Error) => {
          throw new Error(`${error.message}\n\nThe tree (luck ${seed}):\n${print(nodes)}\n`, { cause: error });
        });
      }),
      { numRuns: bySize(6, 60), endOnFailure: true },
    );
    console.log(JSON.stringify(tally));
    expect(Math.min(tally.rows, tally.external)).toBeGreaterThan(0);
  },
);
