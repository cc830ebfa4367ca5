import { toObject } from "../../core/json.ts";
import { toShort, toShortId } from "../call/screen.ts";
import { colors } from "../colors.ts";
import { toAge, toMoment } from "../runs/times.ts";
import { toLines } from "../table.ts";

const head = ["schedule", "workflow", "times", "last", "next"];
const [lastColumn, nextColumn] = [3, 4];

/** Returns the lines of a schedule list, as a server sends it. */
export function toScheduleLines(schedules: readonly unknown[], now: number): string[] {
  const rows = schedules.map((schedule) => {
    const { id, workflowId, lastAt, nextAt, paused, ...times } = toObject(schedule);
    return [
      toShortId(id),
      toShortId(workflowId),
      toTimes(times),
      lastAt === undefined ? "never" : toAge(toShort(lastAt), now),
      paused === true ? "paused" : toMoment(toShort(nextAt), now),
    ];
  });
  const [first = "", ...lines] = toLines(head, rows, (padded, column, cells) => {
    if (column === nextColumn) return cells[column] === "paused" ? colors.yellow(padded) : padded;
    return column === lastColumn ? colors.dim(padded) : padded;
  });
  return [colors.dim(first), ...lines];
}

/** Returns the times of a schedule: `0 3 * * *  Europe/Berlin`, or `every 15m`. */
function toTimes({ cron, every, timezone }: Record<string, unknown>): string {
  if (cron !== undefined) return `${toShort(cron, 80)}  ${toShort(timezone, 80)}`;
  return `every ${typeof every === "number" ? toDuration(every) : toShort(every, 80)}`;
}

/** Formats milliseconds with the largest unit that needs no fraction, as a user would write them: `15m`. */
function toDuration(ms: number): string {
  const [unit, size] = units.find(([, one]) => ms % one === 0) ?? ["ms", 1];
  return `${ms / size}${unit}`;
}
const units = [
  ["d", 86_400_000],
  ["h", 3_600_000],
  ["m", 60_000],
  ["s", 1_000],
] as const;
