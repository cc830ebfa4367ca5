import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import { toJsonSchema as fromValibot } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import type { Schema } from "./schema.ts";

export type JsonSchema = Record<string, unknown>;
/** `input` is what a caller sends, `output` what the schema makes of it. */
export type Side = "input" | "output";

/**
 * A schema as JSON Schema 2020-12. What has no counterpart there (a transform, a Date, a function) becomes `{}`, and
 * `warn` hears about it once.
 */
export function toJsonSchema(schema: Schema, side: Side, warn: (reason: string) => void): JsonSchema {
  const convert = converters(schema, side);
  let json: JsonSchema;
  try {
    json = convert("throw");
  } catch (error) {
    warn(error instanceof Error ? error.message : String(error));
    json = attempt(() => convert("ignore")) ?? {};
  }
  const { $schema: _, ...rest } = json;
  return rest;
}

function converters(schema: Schema, side: Side): (errors: "throw" | "ignore") => JsonSchema {
  const standard = schema["~standard"];
  const target = "draft-2020-12";
  if (standard.vendor === "valibot") {
    // valibot keeps its converter in a package of its own; the vendor says that this is one of its schemas.
    return (errorMode) =>
      fromValibot(schema as unknown as GenericSchema, { target, typeMode: side, errorMode }) as JsonSchema;
  }
  if (!("jsonSchema" in standard)) {
    return () => {
      throw new Error(`${standard.vendor} has no JSON Schema converter (Standard JSON Schema)`);
    };
  }
  const { jsonSchema } = standard as StandardJSONSchemaV1.Props;
  return (errors) =>
    jsonSchema[side]({ target, libraryOptions: errors === "ignore" ? lenient[standard.vendor] : undefined });
}

// How each library is told to leave out a part that it cannot express, and keep the rest.
const lenient: Record<string, Record<string, unknown>> = {
  zod: { unrepresentable: "any" },
  arktype: { fallback: (part: { base: JsonSchema }) => part.base },
};

function attempt<T>(convert: () => T): T | undefined {
  try {
    return convert();
  } catch {
    return undefined;
  }
}
