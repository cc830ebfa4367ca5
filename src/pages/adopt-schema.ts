import { isObject } from "../core/json.ts";
import { resolveRef } from "../core/schema-ref.ts";
import type { Json } from "./catalog.ts";

/**
 * A schema of its own as a part of the document, where it stands at `place`: what it says of itself goes, and its references,
 * which are resolved from the document's root, lead to the same things as before. One that leads out of the schema would make
 * a reader of the document ask another server: it stands for anything.
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

  return adopt(schema, 0) as Json; // an object stays one
}

const maxDepth = 100;
const identifiers = new Set(["$schema", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary", "$comment"]);
/** What is a value, though it may look like a schema. */
const data = new Set(["const", "enum", "default", "examples", "example", "required", "type"]);
/** Whose keys are names of the author's. */
const named = new Set(["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"]);
