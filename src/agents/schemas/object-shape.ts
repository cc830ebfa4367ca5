import { badRequest, ServeError } from "../../core/error.ts";
import { toJsonSchema, type JsonSchema } from "../../core/json-schema.ts";
import { isDeeper, tryParseJson } from "../../core/json.ts";
import { validate, type Schema } from "../../core/schema.ts";
import type { SchemaChecker } from "./schema-checker.ts";

/** What the model's text must be. */
export interface ObjectShape {
  /** The JSON Schema that the model is given; its root is an object. */
  readonly schema: JsonSchema;
  /** The value that the text holds; throws what is wrong with it. */
  readonly read: (text: string) => Promise<unknown>;
}

export interface SchemaLimits {
  readonly schemaBytes: number;
  readonly schemaDepth: number;
}

/** The shape that a client asks for. Its schema is hostile input: nothing of it is evaluated in this process. */
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

/** The shape that an author asks for. */
export function fromSchema(schema: Schema): ObjectShape {
  const json = toJsonSchema(schema, "input", () => {}); // said once already, when the step was described
  return toShape(json, async (value) => {
    const result = await validate(schema, value);
    if ("problem" in result) throw mismatch(result.problem);
    return result.value;
  });
}

/** Providers want an object at the root, so anything else is wrapped in one. */
function toShape(schema: JsonSchema, check: (value: unknown) => Promise<unknown>): ObjectShape {
  return {
    schema: isObject(schema) ? schema : wrap(schema),
    read: async (text) => {
      const value = tryParseJson(text);
      if (value === undefined) throw mismatch("it is not JSON");
      if (isDeeper(value, maxDepth)) throw mismatch(`it is nested deeper than ${maxDepth} levels`);
      return check(unwrap(schema, value));
    },
  };
}

/** How deep an answer may be nested: what is deeper cannot be written as JSON again. */
export const maxDepth = 500;

const isObject = (schema: JsonSchema): boolean => schema["type"] === "object";

/** What was asked for, out of the object that it may be wrapped in. */
export function unwrap(schema: JsonSchema, value: unknown): unknown {
  return isObject(schema) || !isWrapped(value) ? value : value.elements;
}

const isWrapped = (value: unknown): value is { elements: unknown } =>
  typeof value === "object" && value !== null && !Array.isArray(value) && "elements" in value;

function wrap({ $defs, definitions, ...schema }: JsonSchema): JsonSchema {
  const elements = moveRefs(schema);
  const wrapped = { type: "object", properties: { elements }, required: ["elements"], additionalProperties: false };
  return {
    ...wrapped,
    ...($defs !== undefined && { $defs: moveRefs($defs) }),
    ...(definitions !== undefined && { definitions: moveRefs(definitions) }),
  };
}

/** What pointed at the old root, other than at its definitions, now stands deeper. */
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

const invalidSchema = (detail: string): ServeError => badRequest(`Invalid schema: ${detail}`);
const mismatch = (detail: string): ServeError => new ServeError(502, `Model output does not match schema: ${detail}`);
