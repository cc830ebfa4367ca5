import * as v from "valibot";
import { isObject } from "../core/json.ts";

/** A schema for a whole number in a URL or a header, where it is text. In the OpenAPI document it is an integer. */
export function wholeNumber(min: number, max: number, rule: string): v.GenericSchema<string, number> {
  const digits = String(max).length;
  return v.pipe(
    v.string(),
    v.regex(new RegExp(String.raw`^\d{1,${digits}}$`), rule),
    v.transform(Number),
    v.number(),
    v.integer(),
    v.minValue(min, rule),
    v.maxValue(max, rule),
  );
}

/** A schema for some of these words in a URL, with commas between them. In the OpenAPI document it is an array. */
export function commaList<const Word extends string>(words: readonly Word[]): v.GenericSchema<string, Word[]> {
  const rule = `expected one or more of ${words.join(", ")}`;
  return v.pipe(
    v.string(),
    v.transform((text) => text.split(",")),
    v.array(v.picklist(words, rule)),
  );
}

const timeRule = "expected a time such as 2026-01-31T12:00:00Z, or milliseconds since 1970";
const isoTime = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/** A time in a URL, as ISO 8601 or in milliseconds since 1970. */
export const Time: v.GenericSchema<string, number> = v.pipe(
  v.string(),
  v.check((text) => !Number.isNaN(toTime(text)), timeRule),
  v.transform(toTime),
);

function toTime(text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  if (!isoTime.test(text)) return NaN;
  // `Date` parses February 30 as a day in March.
  const day = new Date(`${text.slice(0, 10)}T00:00:00Z`);
  return Number.isNaN(day.valueOf()) || day.toISOString().slice(0, 10) !== text.slice(0, 10) ? NaN : Date.parse(text);
}

/** A user id or conversation id from a client. It can be part of a URL path. */
export const GivenId: v.GenericSchema<string> = v.pipe(
  v.string(),
  v.maxLength(256, "expected at most 256 characters"),
  v.check((id: string) => id.isWellFormed(), "expected Unicode without lone surrogates"),
  v.check((id: string) => id !== "." && id !== "..", "expected an id other than . and .."),
);
/** An id that is not empty. */
export const OptionalId: v.GenericSchema<string | undefined> = v.optional(
  v.pipe(v.string(), v.nonEmpty("expected an id"), GivenId),
);

/** The `Prefer` header (RFC 7240). True if the client asks for a response before the end of the work. */
export const Prefer: v.GenericSchema<string | undefined, boolean> = v.pipe(
  v.optional(v.string()),
  v.description("`respond-async` asks for a 202 at once, before the work has ended."),
  v.transform((text) => text !== undefined && /\brespond-async\b/i.test(text)),
);

type AnyRecord = v.RecordSchema<v.StringSchema<undefined>, v.UnknownSchema, undefined>;
const record: AnyRecord = v.record(v.string(), v.unknown());

/**
 * Any JSON object of a body. Unlike `record`, it does not copy the object: 2 MB can have 150,000 keys, and each copy of
 * such an object takes longer than to parse it. Removes the keys that `record` leaves out.
 */
export const AnyObject: AnyRecord = {
  ...record,
  "~run"(dataset, config) {
    const { value } = dataset;
    if (!isObject(value)) return record["~run"](dataset, config);
    for (const key of unsafeKeys) delete value[key];
    return { value, typed: true };
  },
};

const unsafeKeys = ["__proto__", "prototype", "constructor"];
