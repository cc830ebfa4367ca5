/**
 * The times of cron patterns, by hand from the rules: it walks minute by minute through real time and asks Intl for the wall
 * clock. A pattern has numbers, lists, ranges, steps and `*`.
 */

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;

/** A minute of real time. Times on the wall are written as if they were UTC. */
interface Minute {
  readonly at: number;
  readonly wall: number;
  /** Whether the wall clock has shown this time before. */
  readonly isRepeated: boolean;
  /** The times on the wall that were skipped just before this minute. */
  readonly skipped: readonly number[];
}

/** A few days in a time zone. Clocks are not changed on its first day. */
export interface Window {
  readonly zone: string;
  readonly start: number;
  readonly end: number;
  readonly minutes: readonly Minute[];
  /** The moment when clocks are changed, or else the middle. */
  readonly change: number;
}

export function createWindow(zone: string, start: number, days: number): Window {
  const format = new Intl.DateTimeFormat("en-GB", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  const minutes: Minute[] = [];
  let latest: number | undefined;
  for (let at = start; at < start + days * dayMs; at += minuteMs) {
    const [day, month, year, hour, minute] = format.format(at).match(/\d+/g)!.map(Number);
    const wall = Date.UTC(year!, month! - 1, day, hour, minute);
    const skipped: number[] = [];
    latest ??= wall - minuteMs;
    for (let other = latest + minuteMs; other < wall; other += minuteMs) skipped.push(other);
    minutes.push({ at, wall, isRepeated: wall <= latest, skipped });
    latest = Math.max(latest, wall);
  }
  const change = minutes.find(({ isRepeated, skipped }) => isRepeated || skipped.length > 0)?.at;
  return { zone, start, end: start + days * dayMs, minutes, change: change ?? start + (days / 2) * dayMs };
}

/** The times of a pattern after a moment and up to another one, the oldest first. Both are within the window. */
export function* timesOf(pattern: string, window: Window, after: number, until = window.end - 1): Generator<number> {
  const fields = pattern.split(" ");
  const [second, minute, hour, day, month, weekday] = fields.length === 6 ? fields : ["0", ...fields];
  const seconds = valuesOf(second!, 0, 59);
  const sets = { minute: valuesOf(minute!, 0, 59), hour: valuesOf(hour!, 0, 23), month: valuesOf(month!, 1, 12) };
  const days = valuesOf(day!, 1, 31);
  const weekdays = new Set([...valuesOf(weekday!, 0, 6)].map((value) => value % 7));

  function isDay(date: Date): boolean {
    const isDate = days.has(date.getUTCDate());
    const isWeekday = weekdays.has(date.getUTCDay());
    return day === "*" || weekday === "*" ? isDate && isWeekday : isDate || isWeekday;
  }
  function isMatch(wall: number): boolean {
    const date = new Date(wall);
    if (!sets.minute.has(date.getUTCMinutes()) || !sets.hour.has(date.getUTCHours())) return false;
    return sets.month.has(date.getUTCMonth() + 1) && isDay(date);
  }
  function secondsOf({ wall, isRepeated, skipped }: Minute): Set<number> {
    if (hour === "*") return isMatch(wall) ? seconds : new Set();
    if (isRepeated) return new Set();
    return new Set([...(skipped.some(isMatch) ? [0] : []), ...(isMatch(wall) ? seconds : [])]);
  }

  for (let index = Math.floor((after - window.start) / minuteMs); index < window.minutes.length; index++) {
    const found = window.minutes[index]!;
    if (found.at > until) return;
    for (const value of [...secondsOf(found)].toSorted((one, other) => one - other)) {
      const time = found.at + value * 1_000;
      if (time > after && time <= until) yield time;
    }
  }
}

/** The numbers that a field of a pattern names. */
function valuesOf(field: string, least: number, most: number): Set<number> {
  const values = new Set<number>();
  for (const part of field.split(",")) {
    const [range = "", step = "1"] = part.split("/");
    const [first, last = first] = range === "*" ? [least, most] : range.split("-").map(Number);
    for (let value = first!; value <= last!; value += Number(step)) values.add(value);
  }
  return values;
}
