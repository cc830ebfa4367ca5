import { isObject } from "../../core/json.ts";
import { resolveRef } from "../../core/schemas/schema-sample.ts";
import type { Json } from "../catalog.ts";
import { toPascalCase } from "./names.ts";

export interface AdoptedSchema {
  readonly name: string;
  /** The schema and each part that it refers to, by name. */
  readonly components: Readonly<Record<string, Json>>;
}

/**
 * Splits a schema into components of the document: generators read references only to components, not into them.
 * Keywords that identify the schema are removed. A reference out of the schema is removed, because it would make a
 * reader of the document call another server. Without the reference, that place accepts any value.
 */
export function adoptSchema(schema: Json, wanted: string, toName: (wanted: string) => string): AdoptedSchema {
  const ownName = toName(wanted);
  const names = new Map<unknown, string>([[schema, ownName]]);
  const components: Record<string, Json> = {};
  // A Map is iterated in the order of its entries, including those that are added on the way.
  for (const [part, name] of names) components[name] = adopt(part, 0) as Json; // an object stays an object
  return { name: ownName, components };

  function adopt(value: unknown, depth: number): unknown {
    if (!isObject(value)) return value;
    if (depth > maxDepth) return {};
    const entries = Object.entries(withItems(value)).filter(([key]) => !removed.has(key));
    return Object.fromEntries(entries.flatMap(([key, inner]) => adoptKeyword(key, inner, depth + 1)));
  }

  function adoptKeyword(key: string, inner: unknown, depth: number): [string, unknown][] {
    if (key === "$ref") {
      const target = typeof inner === "string" ? follow(inner) : undefined;
      return isObject(target) ? [[key, `#/components/schemas/${toPartName(target, String(inner))}`]] : [];
    }
    if (data.has(key)) return [[key, inner]];
    if (Array.isArray(inner)) return [[key, inner.map((one) => adopt(one, depth))]];
    if (!named.has(key) || !isObject(inner)) return [[key, adopt(inner, depth)]];
    return [[key, Object.fromEntries(Object.entries(inner).map(([name, one]) => [name, adopt(one, depth)]))]];
  }

  function toPartName(part: Json, ref: string): string {
    const name = names.get(part) ?? toName(wanted + (toPascalCase(ref.split("/").at(-1) ?? "") || "Part"));
    names.set(part, name);
    return name;
  }

  /** Resolves a reference and the references that it leads to. Undefined if they lead nowhere, or in a circle. */
  function follow(ref: string): unknown {
    const seen = new Set<unknown>();
    let found = resolveRef(schema, ref);
    while (isObject(found) && typeof found["$ref"] === "string" && Object.keys(found).length === 1) {
      if (seen.has(found)) return undefined;
      seen.add(found);
      found = resolveRef(schema, found["$ref"]);
    }
    return found;
  }
}

/** Adds the `items` of an array, which some tools need as an object. `items: false` is the same as a `maxItems`. */
function withItems(schema: Json): Json {
  const { type, items, prefixItems, maxItems = Infinity } = schema;
  if (isObject(items) || (type !== "array" && items !== false)) return schema;
  const rest = { ...schema, items: {} };
  if (items !== false) return rest;
  return { ...rest, maxItems: Math.min(Number(maxItems), Array.isArray(prefixItems) ? prefixItems.length : 0) };
}

const maxDepth = 100;
/** The keywords that identify a schema, and those whose parts become components. */
const removed = new Set(
  "$schema $id $anchor $dynamicAnchor $dynamicRef $vocabulary $comment $defs definitions".split(" "),
);
/** The keywords whose value is data, even if it looks like a schema. */
const data = new Set(["const", "enum", "default", "examples", "example", "required", "type"]);
/** The keywords whose keys are the author's names. */
const named = new Set(["properties", "patternProperties", "dependentSchemas"]);
