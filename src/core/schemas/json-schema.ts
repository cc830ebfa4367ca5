import type { StandardJSONSchemaV1 } from "@standard-schema/spec";
import { toJsonSchema as fromValibot } from "@valibot/to-json-schema";
import type { GenericSchema } from "valibot";
import { attempt } from "../attempt.ts";
import { toErrorMessage } from "../error.ts";
import type { Schema } from "../schema.ts";

export type JsonSchema = Record<string, unknown>;
/** `input` is the caller's value, `output` the value that the schema returns. */
export type Side = "input" | "output";

/**
 * Converts a schema to JSON Schema 2020-12. A part without an equivalent (a transform, a Date, a function) becomes
 * `{}`. `warn` is then called once with the reason.
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
    // valibot ships its converter as a separate package. The vendor proves that this is a valibot schema.
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

// Actions that only normalize a string. They do not restrict the input of a caller.
const ignoreActions = ["trim", "trim_start", "trim_end", "to_lower_case", "to_upper_case", "normalize"];

// The options by which each library throws at an unsupported part ("throw"), or omits only that part ("ignore").
// Libraries with this default have no entry.
const libraryOptions: Record<"throw" | "ignore", Record<string, Record<string, unknown>>> = {
  throw: { arktype: { fallback: refuse } },
  ignore: { zod: { unrepresentable: "any" } },
};

function refuse({ code }: { code: string }): never {
  throw new Error(`a ${code} cannot be represented in JSON Schema`);
}
