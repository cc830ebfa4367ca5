import { Validator, type Schema } from "@cfworker/json-schema";
import { expect, it } from "vitest";
import { sampleSchema } from "../../src/core/schemas/schema-sample.ts";

const bounds = { maxValues: 200, maxDepth: 16, maxText: 200 };
const text = "42 days in Berlin";

const schemas: Record<string, unknown>[] = [
  { type: "object", properties: { a: { type: "string" }, b: { type: "integer", minimum: 50 } }, required: ["a"] },
  { type: "array", items: { $ref: "#/$defs/item" }, minItems: 2, $defs: { item: { type: "string", minLength: 30 } } },
  { allOf: [{ type: "object", properties: { a: { type: "number" } } }, { required: ["a"] }] },
  { anyOf: [{ type: "null" }, { type: "object", properties: { a: { const: 1 } }, required: ["a"] }] },
  { type: ["integer", "null"], exclusiveMinimum: 2, exclusiveMaximum: 4 },
  { type: "number", multipleOf: 5, maximum: 40 },
  { type: "string", maxLength: 3 },
  { type: "array", prefixItems: [{ type: "string" }, { type: "boolean" }], minItems: 2 },
  { enum: ["x", "y"] },
  { type: "object", properties: { next: { $ref: "#" }, "a/b": { $ref: "#/$defs/a~1b" } }, $defs: { "a/b": {} } },
];

it.each(schemas.map((schema) => [JSON.stringify(schema), schema] as const))(
  "samples a value that matches %s",
  (_, schema) => {
    const validator = new Validator(schema as Schema, "2020-12");
    for (const options of [bounds, { ...bounds, text }, { ...bounds, text, optionalDepth: 4 }]) {
      const sample = sampleSchema(schema, options);
      expect(validator.validate(sample).errors, JSON.stringify(sample)).toEqual([]);
    }
  },
);

it("takes the texts and numbers of a sample from the given text", () => {
  const properties = { days: { type: "integer" }, city: { type: "string" } };
  expect(sampleSchema({ type: "object", properties }, { ...bounds, text, optionalDepth: 1 })).toEqual({
    days: 42,
    city: text,
  });
});

it("leaves properties that are not required out of a sample, unless they are asked for", () => {
  const schema = { type: "object", properties: { a: { type: "string" }, b: { type: "string" } }, required: ["a"] };
  expect(sampleSchema(schema, bounds)).toEqual({ a: "text" });
  expect(sampleSchema(schema, { ...bounds, optionalDepth: 1 })).toEqual({ a: "text", b: "text" });
});

it("ends a sample at its bounds, whatever a schema says", () => {
  const endless = { type: "object", properties: { a: { $ref: "#" }, b: { $ref: "#" } }, required: ["a", "b"] };
  expect(JSON.stringify(sampleSchema(endless, bounds)).length).toBeLessThan(10_000);
  expect(sampleSchema({ type: "string", minLength: 1e9 }, bounds)).toHaveLength(200);
  expect(sampleSchema({ type: "array", items: {}, minItems: 1e9 }, bounds)).toHaveLength(10);
  expect(sampleSchema({ $ref: "https://other.example/schema" }, bounds)).toBe("text");
});
