import fc from "fast-check";
import type { Json } from "./verdict.ts";

const keys = ["a", "b", "id", "then", "$ref", "type", "__proto__", "constructor"];
const texts = fc.oneof(fc.constantFrom("", "a", "🔑", "ab", "\u0000"), fc.string({ maxLength: 4, unit: "grapheme" }));
const scalars = fc.oneof(
  texts,
  fc.integer({ min: -5, max: 5 }),
  fc.double({ noNaN: true, noDefaultInfinity: true }),
  fc.boolean(),
  fc.constant(null),
);
const small = fc.option(fc.integer({ min: 0, max: 3 }), { nil: undefined });
const plain = (schema: Json): Json => JSON.parse(JSON.stringify(schema)) as Json; // without what is undefined

const { list: listSchema, record: recordSchema } = fc.letrec<{ any: Json; list: Json; record: Json }>((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.record({ type: fc.constant("string"), minLength: small, maxLength: small }).map(plain),
    fc.record({ type: fc.constantFrom("number", "integer"), minimum: small, maximum: small }).map(plain),
    fc.record({ type: fc.constantFrom("boolean", "null") }),
    fc
      .array(scalars, { minLength: 1, maxLength: 3 })
      .map((list) => ({ enum: JSON.parse(JSON.stringify(list)) as unknown })),
    tie("list"),
    tie("record"),
  ),
  list: fc.record({ type: fc.constant("array"), items: tie("any"), minItems: small, maxItems: small }).map(plain),
  record: fc
    .record({
      entries: fc.uniqueArray(fc.tuple(fc.constantFrom(...keys), tie("any")), {
        maxLength: 4,
        selector: ([key]) => key,
      }),
      required: fc.uniqueArray(fc.constantFrom(...keys), { maxLength: 2 }),
      closed: fc.boolean(),
    })
    .map(({ entries, required, closed }) => ({
      type: "object",
      properties: Object.fromEntries(entries),
      required,
      ...(closed && { additionalProperties: false }),
    })),
}));

/** Mostly what the schema asks for, and now and then something else. */
function valueFor(schema: Json): fc.Arbitrary<unknown> {
  return fc.oneof({ weight: 9, arbitrary: fitting(schema) }, { weight: 1, arbitrary: scalars });
}
function fitting(schema: Json): fc.Arbitrary<unknown> {
  if (Array.isArray(schema["enum"])) return fc.constantFrom(...(schema["enum"] as unknown[]));
  switch (schema["type"]) {
    case "string":
      return texts;
    case "number":
    case "integer":
      return fc.oneof(fc.integer({ min: 0, max: 3 }), fc.constant(1.5));
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(valueFor(schema["items"] as Json), { maxLength: 3 });
    default: {
      const properties = Object.entries(schema["properties"] as Record<string, Json>);
      const required = (schema["required"] as string[]).filter(
        (key) => !Object.hasOwn(schema["properties"] as Json, key),
      );
      const all = [
        ...properties.map(([key, inner]) => fc.tuple(fc.constant(key), valueFor(inner))),
        ...required.map((key) => fc.tuple(fc.constant(key), scalars)),
      ];
      const kept = fc.oneof({ weight: 5, arbitrary: fc.constant(true) }, { weight: 1, arbitrary: fc.boolean() });
      return fc
        .tuple(fc.tuple(...all), fc.array(kept, { minLength: all.length, maxLength: all.length }))
        .map(([entries, keep]) => Object.fromEntries(entries.filter((_, index) => keep[index])));
    }
  }
}
export const meant = fc
  .oneof(listSchema, recordSchema)
  .chain((schema) => fitting(schema).map((value) => ({ schema, value: JSON.parse(JSON.stringify(value)) as unknown })));
