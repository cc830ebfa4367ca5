import * as v from "valibot";

/** A schema for a whole number in a URL or a header, where it is text. In the OpenAPI document it is an integer. */
export function wholeNumber(least: number, max: number, rule: string): v.GenericSchema<string, number> {
  const digits = String(max).length;
  return v.pipe(
    v.string(),
    v.regex(new RegExp(String.raw`^\d{1,${digits}}$`), rule),
    v.transform(Number),
    v.number(),
    v.integer(),
    v.minValue(least, rule),
    v.maxValue(max, rule),
  );
}
