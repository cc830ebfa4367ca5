import * as v from "valibot";

/** A schema for some of these words in a URL, with commas between them. In the OpenAPI document it is an array. */
export function commaList<const Word extends string>(words: readonly Word[]): v.GenericSchema<string, Word[]> {
  const rule = `expected one or more of ${words.join(", ")}`;
  return v.pipe(
    v.string(),
    v.transform((text) => text.split(",")),
    v.array(v.picklist(words, rule)),
  );
}
