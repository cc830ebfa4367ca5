import type { JsonSchema } from "../core/json-schema.ts";
import { sampleSchema } from "../core/schema-sample.ts";

/** Returns a short example of a value that a JSON Schema accepts. Optional properties are omitted. */
export const toExample = (schema: Readonly<JsonSchema>): unknown =>
  sampleSchema(schema, { maxValues: 200, maxDepth: 16, maxText: 200 });
