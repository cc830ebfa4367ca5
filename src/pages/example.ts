import { Validator } from "@cfworker/json-schema";
import { attempt } from "../core/attempt.ts";
import type { JsonSchema } from "../core/schemas/json-schema.ts";
import { sampleSchema } from "../core/schemas/schema-sample.ts";

/** Returns a short example of a value that a JSON Schema accepts. Optional properties are omitted. */
export const toExample = (schema: Readonly<JsonSchema>): unknown =>
  sampleSchema(schema, { maxValues: 200, maxDepth: 16, maxText: 200 });

/** Returns an example, unless the schema rejects it: a sample does not follow patterns. */
export function toValidExample(schema: Readonly<JsonSchema>): { value: unknown } | undefined {
  const value = toExample(schema);
  const result = attempt(() => new Validator(schema, "2020-12").validate(value));
  return result?.valid ? { value } : undefined;
}
