import { toShort, toShortId } from "../call/screen.ts";
import { colors } from "../colors.ts";
import { toLines } from "../table.ts";
import type { RunItem } from "./source.ts";
import { toAge, toTook } from "./times.ts";

const head = ["execution", "workflow", "status", "started", "took", "detail"];

/** Returns the lines of an execution list. */
export function toListLines(runs: readonly RunItem[], now: number): string[] {
  const rows = runs.map((run) => {
    const { executionId, workflowId, status, startAt, endAt, suspension, error, cancellation } = run;
    const detail = cancellation?.reason ?? error ?? suspension?.reason ?? "";
    return [
      ...[executionId, workflowId].map(toShortId),
      statusName(status, cancellation),
      toAge(startAt, now),
      toTook(startAt, endAt),
      toShort(detail, 80),
    ];
  });
  const [first = "", ...lines] = toLines(head, rows, (padded, column, cells) => {
    if (column === 2) return statusPaint(cells[2]!)(padded);
    return column > 2 ? colors.dim(padded) : padded;
  });
  return [colors.dim(first), ...lines];
}

/** A cancelled execution has the status `error`: the word says which of the two it is. */
export const statusName = (status: string, cancellation?: object): string =>
  cancellation ? "cancelled" : toShort(status, 20);

export function statusPaint(status: string, cancellation?: object): (text: string) => string {
  const paints: Record<string, (text: string) => string> = {
    running: colors.cyan,
    suspended: colors.yellow,
    completed: colors.green,
    error: colors.red,
  };
  return (cancellation ? undefined : paints[status]) ?? colors.dim;
}
