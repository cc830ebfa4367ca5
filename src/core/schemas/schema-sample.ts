import { attempt } from "../attempt.ts";
import { isObject } from "../json.ts";
import type { JsonSchema } from "./json-schema.ts";

export interface SampleOptions {
  /**
   * The value of strings. Its first number is the value of numbers.
   * @default "text" for strings, 1 for numbers
   */
  readonly text?: string | undefined;
  /** The depth down to which optional properties are included. @default 0: none are included */
  readonly optionalDepth?: number;
  /** Max values in a sample. */
  readonly maxValues: number;
  /** Max levels in a sample. */
  readonly maxDepth: number;
  /** The greatest length to which a string is padded for `minLength`. */
  readonly maxText: number;
}

type Schema = Readonly<JsonSchema>;

/** Returns a small value that matches a JSON Schema. Best effort: the value is not validated. */
export function sampleSchema(root: Schema, options: SampleOptions): unknown {
  const { text, optionalDepth = 0, maxValues, maxDepth, maxText } = options;
  let left = maxValues;

  function sample(schema: unknown, depth: number): unknown {
    if (!isObject(schema) || left-- <= 0 || depth > maxDepth) return null;
    for (const key of ["const", "default", "example"]) if (key in schema) return schema[key];
    for (const key of ["examples", "enum"]) {
      const values = schema[key];
      if (Array.isArray(values) && values.length > 0) return values[0];
    }
    const { $ref, allOf, anyOf, oneOf, ...rest } = schema;
    if (typeof $ref === "string") return sample(merge(rest, resolveRef(root, $ref)), depth + 1);
    if (Array.isArray(allOf)) return sample(allOf.reduce(merge, { ...rest, anyOf, oneOf }), depth + 1);
    const choices = anyOf ?? oneOf;
    if (Array.isArray(choices)) return sample(merge(rest, choices.find(isNotNull) ?? choices[0]), depth + 1);
    return sampleType(schema, depth);
  }

  function sampleType(schema: Schema, depth: number): unknown {
    switch (typeOf(schema)) {
      case "object":
        return sampleObject(schema, depth);
      case "array":
        return sampleArray(schema, depth);
      case "integer":
      case "number":
        return toNumber(schema, text);
      case "boolean":
        return true;
      case "null":
        return null;
      case "string":
        return toText(schema, text, maxText);
      default:
        return depth === 0 && text === undefined ? {} : toText(schema, text, maxText);
    }
  }

  function sampleObject({ properties, required }: Schema, depth: number): unknown {
    const schemas = isObject(properties) ? properties : {};
    const needed = Array.isArray(required) ? required.slice(0, maxValues).map(String) : [];
    const names = depth < optionalDepth ? new Set([...Object.keys(schemas), ...needed]) : needed;
    const toSchema = (name: string): unknown => (Object.hasOwn(schemas, name) ? schemas[name] : {});
    // Object.fromEntries, not assignment: a property may be named __proto__.
    return Object.fromEntries([...names].map((name) => [name, sample(toSchema(name), depth + 1)]));
  }

  function sampleArray({ prefixItems, items, minItems, maxItems }: Schema, depth: number): unknown {
    if (Array.isArray(prefixItems)) return prefixItems.slice(0, maxValues).map((item) => sample(item, depth + 1));
    const min = typeof minItems === "number" ? Math.min(minItems, 10) : 0;
    const length = maxItems === 0 ? 0 : Math.max(1, min);
    return Array.from({ length }, () => sample(items ?? {}, depth + 1));
  }

  return sample(root, 0);
}

const isNotNull = (schema: unknown): boolean => isObject(schema) && schema["type"] !== "null";

function merge(left: Schema, right: unknown): Schema {
  if (!isObject(right)) return left;
  const both = { ...left, ...right };
  const [mine, theirs] = [left["properties"], right["properties"]];
  if (isObject(mine) && isObject(theirs)) Object.assign(both, { properties: { ...mine, ...theirs } });
  const required = [left["required"], right["required"]].filter(Array.isArray).flat();
  return required.length > 0 ? { ...both, required } : both;
}

function typeOf({ type, properties, required, items, prefixItems }: Schema): unknown {
  if (Array.isArray(type)) return type.find((one) => one !== "null") ?? "null";
  if (type !== undefined) return type;
  if (properties ?? required) return "object";
  return (items ?? prefixItems) ? "array" : undefined;
}

/** Returns the first number in a text, or the nearest number that the schema allows. Without a text: a small number. */
function toNumber(schema: Schema, text: string | undefined): number {
  const read = (key: string, otherwise: number): number => {
    const value = schema[key];
    return typeof value === "number" ? value : otherwise;
  };
  const above = read("exclusiveMinimum", -Infinity);
  const below = read("exclusiveMaximum", Infinity);
  const min = Math.max(read("minimum", -Infinity), above);
  const max = Math.min(read("maximum", Infinity), below);
  const isInteger = typeOf(schema) === "integer";
  const step = read("multipleOf", isInteger ? 1 : 0);
  const fit = (value: number): number => (step > 0 ? Math.ceil(value / step) * step : value);
  const isRight = (value: number): boolean =>
    Number.isFinite(value) && value >= min && value <= max && value !== above && value !== below;
  const found = Number(/-?\d+(\.\d+)?/.exec(text ?? "")?.[0] ?? 0);
  const wanted = isInteger ? Math.trunc(found) : found;
  const first = text === undefined ? [1] : [wanted, Math.min(Math.max(wanted, min), max)];
  const tried = [...first, min, min + (step || 1), (min + max) / 2, max, max - (step || 1)];
  return tried.map(fit).find(isRight) ?? (text === undefined ? 1 : wanted);
}

function toText({ format, minLength, maxLength }: Schema, wanted: string | undefined, maxText: number): string {
  const text = formats[String(format)] ?? wanted ?? "text";
  const min = typeof minLength === "number" ? Math.min(minLength, maxText) : 0;
  return text.padEnd(min, "x").slice(0, typeof maxLength === "number" ? maxLength : undefined);
}

const formats: Readonly<Record<string, string>> = {
  "date-time": "2026-01-01T09:00:00Z",
  date: "2026-01-01",
  time: "09:00:00Z",
  duration: "PT1H",
  email: "ada@example.com",
  uri: "https://example.com",
  url: "https://example.com",
  hostname: "example.com",
  ipv4: "127.0.0.1",
  ipv6: "::1",
  uuid: "018f2f5e-7d3a-7000-8000-000000000000",
};

/** Resolves a `$ref` inside a JSON Schema. Returns undefined for an external or a dangling reference. */
export function resolveRef(root: Readonly<JsonSchema>, ref: string): unknown {
  if (ref !== "#" && !ref.startsWith("#/")) return undefined;
  let found: unknown = root;
  for (const part of ref.split("/").slice(1)) {
    const key = decode(part);
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, key)) return undefined;
    found = (found as JsonSchema)[key];
  }
  return found;
}

function decode(part: string): string {
  const plain = attempt(() => decodeURIComponent(part)) ?? part;
  return plain.replaceAll("~1", "/").replaceAll("~0", "~");
}
