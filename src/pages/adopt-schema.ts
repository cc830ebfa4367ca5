import { isObject } from "../core/json.ts";
import { resolveRef } from "../core/schema-ref.ts";
import type { Json } from "./catalog.ts";

/**
 * Embeds a schema in the document at `place`. Keywords that identify the schema are removed, and its references are
 * rewritten to resolve from the root of the document. A reference out of the schema is removed, because it would make a
 * reader of the document call another server. Without the reference, that place accepts any value.
 */
export function adoptSchema(schema: Json, place: string): Json {
  function adopt(value: unknown, depth: number): unknown {
    if (!isObject(value)) return value;
    if (depth > maxDepth) return {};
    const entries = Object.entries(value).filter(([key]) => !identifiers.has(key));
    return Object.fromEntries(entries.flatMap(([key, inner]) => adoptKeyword(key, inner, depth + 1)));
  }

  function adoptKeyword(key: string, inner: unknown, depth: number): [string, unknown][] {
    if (key === "$ref") {
      const target = typeof inner === "string" ? resolveRef(schema, inner) : undefined;
      return target === undefined ? [] : [[key, place + String(inner).slice(1)]];
    }
    if (data.has(key)) return [[key, inner]];
    if (Array.isArray(inner)) return [[key, inner.map((one) => adopt(one, depth))]];
    if (!named.has(key) || !isObject(inner)) return [[key, adopt(inner, depth)]];
    return [[key, Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, adopt(one, depth)]))]];
  }

  return adopt(schema, 0) as Json; // an object stays an object
}

const maxDepth = 100;
const identifiers = new Set(["$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary", "$comment"]);
/** The keywords whose value is data, even if it looks like a schema. */
const data = new Set(["const", "enum", "default", "examples", "example", "required", "type"]);
/** The keywords whose keys are names that the author chose. */
const named = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
