import { durationRule, fromDuration } from "../../core/clock.ts";
import { quote } from "../../core/cut.ts";

/** Milliseconds, or a duration such as `"30m"`. */
export type Duration = number | string;
/** The end of a wait: milliseconds from its beginning, or a date. */
export type Until = { readonly ms: number } | { readonly date: number };

const tenYearsMs = 3_653 * 86_400_000;

/** Milliseconds from 0. Throws for a text that is no duration, for NaN, and for more than 10 years. */
export function toMs(duration: unknown, what: string): number {
  const ms = typeof duration === "number" ? duration : fromDuration(duration);
  if (ms === undefined || Number.isNaN(ms))
    throw new TypeError(`${what}: expected milliseconds or ${durationRule}, found ${quote(duration)}`);
  if (ms > tenYearsMs) throw new RangeError(`${what}: expected at most 10 years, found ${quote(duration)}`);
  return Math.max(0, Math.round(ms));
}

/** The time of a date, in milliseconds since 1970. Throws if it is neither a valid `Date` nor an ISO time. */
export function toTime(date: unknown, what: string): number {
  const isText = typeof date === "string" && isoDate.test(date); // `Date.parse` takes "5" for a day in May
  const time = date instanceof Date ? date.getTime() : isText ? Date.parse(date) : Number.NaN;
  if (!Number.isNaN(time)) return time;
  throw new TypeError(`${what}: expected a Date or an ISO time such as "2030-01-31T12:00:00Z", found ${quote(date)}`);
}

const isoDate = /^(\d{4}|[+-]\d{6})-\d\d-\d\d(T|$)/;

/** The end of a wait that was given as a duration or a date. */
export function toUntil(end: unknown, what: string): Until {
  if (!(end instanceof Date)) return { ms: toMs(end, what) };
  if (Number.isNaN(end.getTime())) throw new TypeError(`${what}: expected a valid Date, found ${quote(end)}`);
  return { date: end.getTime() };
}
