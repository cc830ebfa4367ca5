import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import { toJsonSchema as fromValibot } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import { attempt } from "./attempt.ts";
import { toErrorMessage } from "./error.ts";
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
    warn(toErrorMessage(error));
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
      fromValibot(schema as unknown as GenericSchema, {
        target,
        typeMode: side,
        errorMode,
        ignoreActions,
      }) as JsonSchema;
  }
  if (!("jsonSchema" in standard)) {
    return () => {
      throw new Error(`${standard.vendor} has no JSON Schema converter (Standard JSON Schema)`);
    };
  }
  const { jsonSchema } = standard as StandardJSONSchemaV1.Props;
  return (errors) => jsonSchema[side]({ target, libraryOptions: libraryOptions[errors][standard.vendor] });
}

// They change a text, and nothing that a caller must know.
const ignoreActions = ["trim", "trim_start", "trim_end", "to_lower_case", "to_upper_case", "normalize"];

// How a library is told to throw at a part that it cannot express, or to leave that part out and keep the rest, where that
// is not what it does by itself.
const libraryOptions: Record<"throw" | "ignore", Record<string, Record<string, unknown>>> = {
  throw: { arktype: { fallback: refuse } },
  ignore: { zod: { unrepresentable: "any" } },
};

function refuse({ code }: { code: string }): never {
  throw new Error(`a ${code} cannot be represented in JSON Schema`);
}
