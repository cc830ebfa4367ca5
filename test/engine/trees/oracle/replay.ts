import { codelessHost } from "../../../../src/engine/attempts/walk.ts";
import assert from "node:assert/strict";
import { systemClock } from "../../../../src/core/clock.ts";
import type { WorkflowDefinition } from "../../../../src/engine/definition/definition.ts";
import { toTransitionEvents, type EventBody } from "../../../../src/engine/events.ts";
import { createProgram } from "../../../../src/engine/attempts/live-walk.ts";
import { resolveTransition, type ParkedBranch, type Transition } from "../../../../src/engine/execution.ts";
import { toText, toValue, type Value } from "../../../../src/engine/walk/value.ts";
import type { JournalInput } from "../../../../src/engine/walk/decision.ts";
import { createTestLogger } from "../../../harness/server.ts";
import { programOptions } from "../play/world.ts";
import { eventOf } from "../values.ts";
import { copiesOf, type Row, type Stored } from "./stored.ts";

/** A wait ends by its own event, or at its time and not before. */
function checkWake(
  { key, at, body }: Row,
  { kind = "person", due, event }: ParkedBranch<Value>,
  isSteady: boolean,
): void {
  const { data, event: taken } = JSON.parse(body!);
  if (taken === undefined) {
    assert(due, `${key} ends without a time`);
    if (isSteady) assert(at >= due.at, `${key} ends at ${at}, before ${due.at}`);
    assert.equal(data, undefined, `the data of ${key}`);
    return;
  }
  assert.equal(kind, "event", `${key} ends by an event`);
  assert.equal(data, JSON.stringify(eventOf(event!.key ?? "")), `the event of ${key}`);
}

const legal: Record<string, string[]> = {
  running: ["suspended", "completed", "error"],
  suspended: ["running", "error"],
  completed: [],
  error: ["running"],
};

/** What rows bring about by themselves: a fresh walk is given them in order, and what it asks for is granted. */
export function replay(
  { execution, rows }: Pick<Stored, "execution" | "rows">,
  definition: WorkflowDefinition,
  /** The wall clock has never jumped. */
  isSteady = false,
) {
  const readRow = (row: number) => (row === 0 ? execution.input : textOf(rows.find((one) => one.n === row)!));
  const host = { ...codelessHost, readRow, clock: systemClock };
  const walk = createProgram(programOptions(definition, createTestLogger([]))).createWalk(execution, host);
  const started = new Set<string>();
  const parks = new Map<string, ParkedBranch<Value>>();
  const state = { status: "running", epoch: 0, last: null as Transition | null, ended: null as number | null };
  const events = [take()];
  const copies = copiesOf({ execution, rows });
  for (const [index, row] of rows.entries()) {
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
    // The rows that a fork has copied are older than its waits.
    if (row.kind === "wake" && index >= copies) checkWake(row, parks.get(row.key)!, isSteady);
    const held = state.status === "suspended" && row.kind !== "signal" && row.kind !== "wake";
    events.push(take(toTaken(row), row.moved));
    if (held) assert.deepEqual(events.at(-1), [], `${row.key} lets something go on in a suspended execution`);
  }
  walk.release("replayed");
  return { events, state };

  function take(taken?: JournalInput, isGranted = true): EventBody[] {
    const decision = walk.next(taken);
    const transition = isGranted ? decision.transition : undefined;
    const isRetried = taken && "command" in taken && taken.command.to === "running" && taken.command.isRetry;
    for (const park of decision.parks) {
      // A branch that was aborted waits again after a retry.
      assert(!started.has(park.key!) || isRetried, `${park.key} is waited for twice`);
      started.add(park.key!);
      parks.set(park.key!, park);
    }
    for (const { key } of decision.starts) {
      assert(!started.has(key), `${key} is started twice`);
      started.add(key);
    }
    const isWoken = taken && "wake" in taken && state.status === "suspended";
    const made: Transition<Value>[] = [
      ...(taken && "command" in taken ? [taken.command] : []),
      ...(isWoken ? [{ at: taken.wake.at, to: "running", isWake: true } as const] : []),
      ...(transition ? [transition] : []),
    ];
    const own: EventBody[] = [...decision.events];
    for (const one of made) {
      const next = resolveTransition(one, (value) => toText(value, readRow));
      reach(plain(next));
      own.push(...toTransitionEvents([next]));
    }
    if (transition) walk.confirmTransition();
    return plain(own);
  }

  function reach(next: Transition): void {
    assert(legal[state.status]!.includes(next.to), `from ${state.status} to ${next.to}`);
    const isRetry = next.to === "running" && next.isRetry === true;
    assert.equal(isRetry, state.last !== null && "error" in state.last, `from ${state.status} to ${next.to}`);
    state.status = next.to;
    state.epoch++;
    state.last = next;
    state.ended = /completed|error/.test(next.to) ? next.at : null;
  }
}

const plain = <T>(value: T): T => JSON.parse(JSON.stringify(value));

function toTaken({ n, key, kind, at, body }: Row): JournalInput {
  if (kind === "signal") return { command: JSON.parse(body!) };
  if (kind === "error") {
    const { isFinal, ...error } = JSON.parse(body!);
    assert.equal(typeof isFinal, "boolean", "a failure says whether it is final");
    return { key, result: { at, error, isFinal } };
  }
  if (kind === "suspended") return { key, result: { at, suspended: JSON.parse(body!) } };
  if (kind === "wake") {
    const { data, isJoined } = JSON.parse(body!);
    return { wake: { key, at, value: toValue(data, n), isJoined } };
  }
  if (kind === "loop") {
    const { head, items } = toLoop(body!);
    return { key, result: { at, loop: JSON.parse(head), value: toValue(items, n) } };
  }
  assert.equal(kind, "value");
  return { key, result: { at, value: toValue(body ?? undefined, n) } };
}

function textOf({ kind, body }: Row): string | undefined {
  if (kind === "value") return body ?? undefined;
  return kind === "loop" ? toLoop(body!).items : JSON.parse(body!).data;
}

/** The first line of a loop says how it begins; its items follow. */
function toLoop(body: string): { head: string; items: string | undefined } {
  const end = body.indexOf("\n");
  return { head: body.slice(0, end), items: body.slice(end + 1) || undefined };
}
