import { Cron } from "croner";
import { cut, quote } from "../core/cut.ts";
import { toMs, type Duration } from "../engine/definition/until.ts";
import { toZone, type Zone } from "./zone.ts";

/** The times of a schedule, in milliseconds since 1970. */
export interface Times {
  /** Equal for equal times. */
  readonly key: string;
  /** The first time after another one. Undefined if there is none. */
  next(after: number): number | undefined;
  /** The last times, at most `most`, after `since` and up to `until`; the oldest first. */
  last(max: number, since: number, until: number): number[];
}

/** The shortest interval. */
const minMs = 1_000;

/** Multiples of an interval since 1970, so that a restart does not shift them. */
export function everyTimes(every: Duration, what: string): Times {
  const ms = toMs(every, what);
  if (ms < minMs) throw new RangeError(`${what}: expected at least 1 second, found ${quote(every)}`);
  return {
    key: `every ${ms}`,
    next: (after) => (Math.floor(after / ms) + 1) * ms,
    last(max, since, until) {
      const end = Math.floor(until / ms);
      const begin = Math.max(Math.floor(since / ms), end - max);
      return Array.from({ length: Math.max(0, end - begin) }, (_, index) => (begin + 1 + index) * ms);
    },
  };
}

/**
 * The times of a cron pattern in a time zone.
 *
 * A pattern with named hours gives times of the wall clock. One that is skipped when clocks go forward is the first moment
 * after it; one that occurs twice when clocks go back is the first of the two. A pattern for every hour counts real hours.
 */
export function cronTimes(pattern: string, timezone: string, what: string): Times {
  const isEveryHour = hourOf(pattern) === "*";
  const cron = parse(pattern, isEveryHour ? timezone : "UTC", what);
  const zone = toZone(timezone);
  const { next, last } = isEveryHour ? elapsedTimes(cron, zone) : wallTimes(cron, zone);
  if (next(Date.now()) === undefined) throw new TypeError(`${what}: ${quote(pattern)} is never due`);
  return { key: `cron ${pattern} ${timezone}`, next: remember(next), last };
}

/** Keeps the last answer: it is asked for often, and costs a fraction of a millisecond. */
function remember(find: Times["next"]): Times["next"] {
  let after = Infinity;
  let found: number | undefined;
  return (time) => {
    if (time >= after && time < (found ?? Infinity)) return found;
    after = time;
    return (found = find(time));
  };
}

type Found = Pick<Times, "next" | "last">;

function elapsedTimes(cron: Cron, { toWall, toInstant }: Zone): Found {
  return {
    next: (after) => following(cron, after, toInstant(toMonthEnd(toWall(after)))),
    last: (max, since, until) => lastTimes(max, since, (time) => previous(cron, time), until + 1),
  };
}

/** The pattern is evaluated in UTC, as a clock on the wall would show the time; then each time is looked up in the zone. */
function wallTimes(cron: Cron, { toWall, toLatestWall, toInstant }: Zone): Found {
  return {
    next(after) {
      const latest = toLatestWall(after);
      const wall = following(cron, latest, toMonthEnd(latest));
      return wall === undefined ? undefined : toInstant(wall);
    },
    last(max, since, until) {
      // Just before a time, the wall clock was before all those that it skipped. They are the same time.
      const before = (time: number): number => (time > until ? toLatestWall(until) : toWall(time - 1)) + 1;
      const find = (time: number): number | undefined => {
        const wall = previous(cron, before(time));
        return wall === undefined ? undefined : toInstant(wall);
      };
      return lastTimes(max, since, find, until + 1);
    },
  };
}

/** The last times before `end`, the oldest first. `find` returns the last time before another one. */
function lastTimes(max: number, since: number, find: (time: number) => number | undefined, end: number): number[] {
  const times: number[] = [];
  let time = find(end);
  for (; time !== undefined && time > since && times.length < max; time = find(time)) times.push(time);
  return times.toReversed();
}

/**
 * The first time after another one, whose month has its last second at `monthEnd`. In February, croner takes the 30th for
 * 2 March and so misses 1 March, if a pattern has both days: it is asked once more from the end of the month on.
 */
function following(cron: Cron, after: number, monthEnd: number): number | undefined {
  const ask = (time: number): number => cron.nextRun(new Date(time))?.getTime() ?? Infinity;
  const time = ask(after);
  const first = time <= monthEnd ? time : Math.min(time, ask(monthEnd));
  return first === Infinity ? undefined : first;
}

/** The last second of the month in wall time. */
function toMonthEnd(wall: number): number {
  const date = new Date(wall);
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) - 1_000;
}

/** The last time before another one. croner drops milliseconds, so a part of a second counts as a whole one. */
function previous(cron: Cron, end: number): number | undefined {
  const [date] = cron.previousRuns(1, new Date(Math.ceil(end / 1_000) * 1_000));
  return date?.getTime();
}

function parse(pattern: string, timezone: string, what: string): Cron {
  try {
    // Counted here as well: croner takes a date, at which it would run once.
    const { length } = fieldsOf(pattern);
    if (!isName(pattern) && length !== 5 && length !== 6)
      throw new TypeError("expected five fields, or six with seconds first");
    const key = `${pattern} ${timezone}`;
    const cron = crons.get(key) ?? new Cron(pattern, { timezone, mode: "5-or-6-parts", paused: true });
    if (crons.size >= maxCrons) crons.clear();
    crons.set(key, cron);
    return cron;
  } catch (error) {
    const reason = cut((error as Error).message.replace(/^CronPattern: /, ""));
    throw new TypeError(`${what}: ${quote(pattern)} is not a cron pattern: ${reason}`, { cause: error });
  }
}

/** The patterns in use, and some of before: each takes some 80 KB, and a save defines all schedules again. */
const crons = new Map<string, Cron>();
const maxCrons = 1_000;

/** The field of the hour. A pattern has five fields, or six with seconds first. */
const hourOf = (pattern: string): string | undefined =>
  /^@hourly$/i.test(pattern.trim()) ? "*" : fieldsOf(pattern).at(-4);

const fieldsOf = (pattern: string): string[] => pattern.trim().split(/\s+/);
/** Returns true for a name such as `@daily`. */
const isName = (pattern: string): boolean => pattern.trim().startsWith("@");
