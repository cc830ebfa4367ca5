import { systemClock } from "../../../core/clock.ts";
import { codelessHost, type Walk } from "../../../engine/attempts/walk.ts";
import type { Program } from "../../../engine/contract/program.ts";
import type { Execution } from "../../../engine/execution.ts";
import { textOf, type JournalRow } from "../../../engine/runs/journal-row.ts";
import { Run } from "../../../engine/runs/run.ts";
import type { RunPort } from "../../../engine/runs/run-port.ts";
import { inputRow } from "../../../engine/walk/value.ts";
import type { Command } from "../register/register-state.ts";
import type { StoredRow } from "./rows.ts";

/**
 * Lets a run walk over the stored rows, which may not have all `commands` yet. Returns the first difference: a row or a
 * status that this code does not lead to.
 */
export function replayRows(
  run: Run,
  stored: readonly StoredRow[],
  commands: readonly Command[],
): Promise<string | undefined> {
  /** A transition of the walk was not made: a command was first, and is the next row or on its way. */
  const wasPreceded = (number: number): boolean => {
    const { moved = false, epoch } = stored[number] ?? { epoch: 0 };
    const next = stored[number + 1];
    return !moved && (next ? next.row?.kind === "command" : commands.some((command) => command.epoch > epoch));
  };
  const rows = stored.flatMap(({ row }) => (row ? withBytes(row) : []));
  return run.replay(pagesOf(rows), { wasPreceded });
}

async function* pagesOf(rows: readonly JournalRow[]): AsyncGenerator<readonly JournalRow[]> {
  yield rows;
}

/** A row whose value has its size, as a walk needs it. */
const withBytes = (row: JournalRow): JournalRow =>
  row.kind === "value" && row.body !== null ? { ...row, bytes: Buffer.byteLength(row.body) } : row;

interface ReplayResult {
  readonly run: Run;
  readonly walk: Walk;
  readonly difference: string | undefined;
}

/** Walks over stored rows, and starts nothing. The caller releases the walk. */
export async function replay(
  execution: Execution,
  stored: readonly StoredRow[],
  commands: readonly Command[],
  { createWalk }: Program,
): Promise<ReplayResult> {
  const readRow = (number: number) => (number === inputRow ? execution.input : textOf(stored[number]!.row!));
  const walk = createWalk(execution, { ...codelessHost, readRow });
  const { status = "running", epoch = 0 } = stored.at(-1) ?? {};
  const run = new Run({ execution, status, epoch }, walk, readingPort);
  return { run, walk, difference: await replayRows(run, stored, commands) };
}

/** The first difference between the stored rows and the code of today. Nothing runs. */
export async function findDifference(...args: Parameters<typeof replay>): Promise<string | undefined> {
  const { walk, difference } = await replay(...args);
  walk.release("Only its journal was compared");
  return difference;
}

const never = (): never => {
  throw new Error("This run only reads");
};
const readingPort: RunPort = {
  clock: systemClock,
  executionBytes: Infinity,
  newRow: never,
  append: never,
  start: never,
  alarm: never,
  findEvents: never,
  leave: never,
};
