import fc, { type Arbitrary } from "fast-check";
import type { Json } from "./operations.ts";

/** Texts that break parsers, headers and tables. */
export const oddText: Arbitrary<string> = fc.oneof(
  fc.constantFrom(
    "",
    "\0",
    "\u{1f600}".repeat(50),
    "\ud800",
    "a\r\nx-injected: 1",
    "__proto__",
    "../../etc/passwd",
    "%2e%2e",
    "' or 1=1 --",
    "\u202e\u0000\ufeff",
    "x".repeat(300),
  ),
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.string({ maxLength: 20 }),
);

/** Returns values that match a JSON Schema, as far as its types, lists and lengths say. */
export function matching(schema: Json, components: Json, depth = 0): Arbitrary<unknown> {
  if (schema["$ref"]) return matching(resolve(schema["$ref"], components), components, depth + 1);
  if ("const" in schema) return fc.constant(schema["const"]);
  if (schema["enum"]) return fc.constantFrom(...schema["enum"]);
  const kinds: Json[] | undefined = schema["anyOf"] ?? schema["oneOf"];
  if (kinds) return fc.oneof(...kinds.map((kind) => matching(kind, components, depth + 1)));
  switch (schema["type"]) {
    case "string":
      return toText(schema);
    case "integer":
      return fc.integer({ min: schema["minimum"] ?? -10, max: schema["maximum"] ?? 1_000 });
    case "number":
      return fc.double({ noNaN: true, min: schema["minimum"] ?? -1e6, max: schema["maximum"] ?? 1e6 });
    case "boolean":
      return fc.boolean();
    case "null":
      return fc.constant(null);
    case "array":
      return fc.array(depth > 8 ? fc.constant(null) : matching(schema["items"] ?? {}, components, depth + 1), {
        maxLength: 3,
      });
    case "object":
      return toObject(schema, components, depth);
    default:
      return fc.oneof(fc.dictionary(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3 }));
  }
}

function toText({ minLength = 0, maxLength = 60, pattern }: Json): Arbitrary<string> {
  if (pattern) return fc.stringMatching(new RegExp(pattern));
  return fc.string({ unit: "grapheme", minLength, maxLength: Math.min(maxLength, 60) });
}

function toObject({ properties, required = [], additionalProperties }: Json, components: Json, depth: number) {
  if (!properties) {
    const value = depth > 8 ? fc.constant(null) : matching(additionalProperties || {}, components, depth + 1);
    return fc.dictionary(fc.string({ maxLength: 8 }), value, { maxKeys: 3 });
  }
  const entries = Object.entries<Json>(properties).map(([key, inner]) => [key, matching(inner, components, depth + 1)]);
  return fc.record(Object.fromEntries(entries), { requiredKeys: required });
}

const resolve = (ref: string, components: Json): Json => components["schemas"][ref.split("/").at(-1)!];

/** Returns the value with one place changed: another type, nothing, or one key more. */
export function damaged(value: unknown): Arbitrary<unknown> {
  const odd = fc.oneof(
    fc.constantFrom<unknown>(null, 0, -1, 1e308, 2 ** 53, true, [], {}, [[]], [null], { type: "x" }),
    oddText,
    fc.jsonValue({ maxDepth: 2 }),
  );
  const change = fc.oneof(
    odd.map((replacement) => () => replacement),
    fc.constant(() => undefined),
    fc.tuple(fc.constantFrom("__proto__", "constructor", "toString", "then", "user", "x".repeat(2_000), ""), odd).map(
      ([key, extra]) =>
        (old: unknown) =>
          isObject(old) ? withKey(old, key, extra) : extra,
    ),
  );
  return fc.tuple(fc.nat(), change).map(([place, by]) => changeAt(value, place % countOf(value), by));
}

const isObject = (value: unknown): value is object =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Adds an own key, `__proto__` included. */
function withKey(object: object, key: string, value: unknown): object {
  const copy = { ...object };
  Object.defineProperty(copy, key, { value, enumerable: true, configurable: true });
  return copy;
}

function countOf(value: unknown): number {
  if (typeof value !== "object" || value === null) return 1;
  return Object.values(value).reduce((sum: number, inner) => sum + countOf(inner), 1);
}

/** Changes the place with this number, counted from the root down. */
function changeAt(value: unknown, place: number, by: (old: unknown) => unknown): unknown {
  if (place === 0) return by(value);
  let rest = place - 1;
  const copy = (Array.isArray(value) ? [...value] : { ...(value as object) }) as Json;
  for (const [key, inner] of Object.entries(copy)) {
    const size = countOf(inner);
    if (rest < size) {
      copy[key] = changeAt(inner, rest, by);
      break;
    }
    rest -= size;
  }
  return copy;
}
