import { cut } from "../../core/cut.ts";
import { badRequest, ServeError } from "../../core/error.ts";
import { toJsonSchema, type JsonSchema } from "../../core/schemas/json-schema.ts";
import { isDeeper, isObject, tryParseJson } from "../../core/json.ts";
import { validate, type Schema } from "../../core/schema.ts";
import type { SchemaChecker } from "./schema-checker.ts";

/** The required shape of the model's answer. */
export interface ObjectShape {
  /** The JSON Schema for the model. Its root is always an object. */
  readonly schema: JsonSchema;
  /** Parses and validates the text. Throws a `ServeError` if it does not match. */
  readonly read: (text: string) => Promise<unknown>;
}

export interface SchemaLimits {
  readonly schemaBytes: number;
  readonly schemaDepth: number;
}

/** Creates the shape for a client's schema, which is untrusted: it is never evaluated in this process. */
export async function fromClientSchema(
  schema: JsonSchema,
  checker: SchemaChecker,
  { schemaBytes, schemaDepth }: SchemaLimits,
): Promise<ObjectShape> {
  const text = JSON.stringify(schema);
  if (Buffer.byteLength(text) > schemaBytes) throw invalidSchema(`larger than ${schemaBytes} bytes`);
  if (isDeeper(schema, schemaDepth)) throw invalidSchema(`nested deeper than ${schemaDepth} levels`);
  const found = await checker.check(text);
  if ("problem" in found) throw invalidSchema(found.problem);
  return toShape(schema, async (value) => {
    const result = await checker.check(text, JSON.stringify(value));
    if ("problem" in result) throw invalidSchema(result.problem);
    if (result.mismatch !== undefined) throw mismatch(result.mismatch);
    return value;
  });
}

/** Creates the shape for a schema in the author's code. */
export function fromSchema(schema: Schema): ObjectShape {
  const json = toJsonSchema(schema, "input", () => {}); // the warnings were logged when the step was described
  return toShape(json, async (value) => {
    const result = await validate(schema, value);
    if ("problem" in result) throw mismatch(result.problem);
    return result.value;
  });
}

/** Wraps a schema whose root is not an object, because providers require one. */
function toShape(schema: JsonSchema, check: (value: unknown) => Promise<unknown>): ObjectShape {
  return {
    schema: hasObjectRoot(schema) ? schema : wrap(schema),
    read: async (text) => {
      const value = tryParseJson(text);
      if (value === undefined) throw mismatch("not valid JSON");
      if (isDeeper(value, maxDepth)) throw mismatch(`nested deeper than ${maxDepth} levels`);
      return check(unwrap(schema, value));
    },
  };
}

/** Max depth of an answer. A deeper one could overflow the stack when it is serialized. */
export const maxDepth = 500;

const hasObjectRoot = (schema: JsonSchema): boolean => schema["type"] === "object";

/** Returns the requested value. If the schema was wrapped, it is in `elements`. */
export function unwrap(schema: JsonSchema, value: unknown): unknown {
  return !hasObjectRoot(schema) && isObject(value) && "elements" in value ? value["elements"] : value;
}

function wrap({ $defs, definitions, ...schema }: JsonSchema): JsonSchema {
  const elements = moveRefs(schema);
  const wrapped = { type: "object", properties: { elements }, required: ["elements"], additionalProperties: false };
  return {
    ...wrapped,
    ...($defs !== undefined && { $defs: moveRefs($defs) }),
    ...(definitions !== undefined && { definitions: moveRefs(definitions) }),
  };
}

/** Rewrites references to the old root, except those to its definitions, which stay at the root. */
function moveRefs(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(moveRefs);
  if (typeof value !== "object" || value === null) return value;
  const moved = Object.entries(value).map(([key, inner]): [string, unknown] => {
    if (key === "$ref" && typeof inner === "string" && isMoved.test(inner)) {
      return [key, `#/properties/elements${inner.slice(1)}`];
    }
    return [key, literals.includes(key) ? inner : moveRefs(inner)];
  });
  return Object.fromEntries(moved);
}
const isMoved = /^#($|\/(?!(\$defs|definitions)\/))/;
const literals = ["const", "enum", "default", "examples"];

const invalidSchema = (detail: string): ServeError => badRequest(`Invalid schema: ${cut(detail, 400)}`);
const mismatch = (detail: string): ServeError =>
  new ServeError(502, `Model output does not match schema: ${cut(detail, 400)}`);
