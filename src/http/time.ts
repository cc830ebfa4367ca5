import * as v from "valibot";

const rule = "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970";
const isoTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/** A time in a URL, as ISO 8601 or in milliseconds since 1970. */
export const Time: v.GenericSchema<string, number> = v.pipe(
  v.string(),
  v.check((text) => !Number.isNaN(toTime(text)), rule),
  v.transform(toTime),
);

function toTime(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  if (!isoTime.test(text)) return NaN;
  // `Date` parses February 30 as a day in March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return Number.isNaN(day.valueOf()) || day.toISOString().slice(0, 10) !== text.slice(0, 10) ? NaN : Date.parse(text);
}
