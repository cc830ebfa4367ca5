import { systemClock } from "../../../core/clock.ts";
import type { JsonText } from "../../../core/json.ts";
import { codelessHost, type Walk } from "../../../engine/attempts/walk.ts";
import type { Program } from "../../../engine/contract/program.ts";
import { toRowMismatch } from "../../../engine/compare-steps.ts";
import type { Execution } from "../../../engine/execution.ts";
import { fromRow, textOf, type JournalRow } from "../../../engine/runs/journal-row.ts";
import type { Decision } from "../../../engine/walk/decision.ts";
import { inputRow } from "../../../engine/walk/value.ts";
import type { Command } from "../register/register-state.ts";
import type { StoredRow } from "./rows.ts";

/** The part of a drive that keeps rows. */
interface RowKeeper {
  keep(row: JournalRow): void;
  add(row: StoredRow): void;
  /** The attempts to start, and the waits. Those with a row are among them, but no branch waits for them. */
  plan(decision: Decision): void;
}
/**
 * Walks over the stored rows. `commands` are the transitions from outside that the rows may not have yet. Returns the first
 * difference: a row or a status that this code does not lead to.
 */
export function replayRows(
  rows: readonly StoredRow[],
  commands: readonly Command[],
  walk: Walk,
  keeper?: RowKeeper,
): string | undefined {
  let undecided: StoredRow | undefined; // the last row, if its transition was not made
  for (const stored of rows) {
    const { row, moved } = stored;
    if (row) keeper?.keep(row);
    const input = row && fromRow(withBytes(row));
    const key = input && ("key" in input ? input.key : "wake" in input ? input.wake.key : undefined);
    if (key !== undefined && !walk.isWaitingFor(key)) return toRowMismatch(key);
    if (undecided && !(input && "command" in input)) return toStatusMismatch(undecided);
    const decision = walk.next(input);
    keeper?.plan(decision);
    if (moved && decision.transition?.to !== stored.status) return toStatusMismatch(stored);
    if (moved) walk.confirmTransition();
    undecided = decision.transition && !moved ? stored : undefined;
    keeper?.add(stored);
  }
  // A transition that was not made: a command was first.
  const isPreceded = undecided !== undefined && commands.some(({ epoch }) => epoch > undecided.epoch);
  return undecided && !isPreceded ? toStatusMismatch(undecided) : undefined;
}

/** The first difference between the stored rows and the code of today. Nothing runs. */
export function findDifference(
  execution: Execution,
  rows: readonly StoredRow[],
  commands: readonly Command[],
  program: Program,
): string | undefined {
  const walk = createReadingWalk(execution, rows, program);
  const mismatch = replayRows(rows, commands, walk);
  walk.release("Only its journal was compared");
  return mismatch;
}

/** A walk that takes stored rows, and starts nothing. */
export function createReadingWalk(execution: Execution, rows: readonly StoredRow[], { createWalk }: Program): Walk {
  const texts = new Map(rows.map(({ number, row }) => [number, row]));
  const readRow = (number: number): JsonText | undefined => {
    const row = texts.get(number);
    return number === inputRow ? execution.input : row && textOf(row);
  };
  return createWalk(execution, { ...codelessHost, readRow, clock: systemClock });
}

const toStatusMismatch = ({ row }: StoredRow): string =>
  `the stored status after ${row?.key ?? "the start"} is not the one that this version produces`;

/** A row whose value has its size, as a walk needs it. */
export const withBytes = (row: JournalRow): JournalRow =>
  row.kind === "value" && row.body !== null ? { ...row, bytes: Buffer.byteLength(row.body) } : row;
