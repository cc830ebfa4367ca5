import type { Json } from "./verdict.ts";

/** The part of JSON Schema that these tests use, by hand. */
export function accepts(schema: Json, value: unknown, root: Json): boolean {
  const asked: Record<string, () => boolean> = {
    $ref: () => accepts(follow(root, String(schema["$ref"])), value, root),
    type: () => isOf(String(schema["type"]), value),
    enum: () => (schema["enum"] as unknown[]).some((one) => JSON.stringify(one) === JSON.stringify(value)),
    const: () => JSON.stringify(schema["const"]) === JSON.stringify(value),
    minLength: () => typeof value !== "string" || [...value].length >= Number(schema["minLength"]),
    maxLength: () => typeof value !== "string" || [...value].length <= Number(schema["maxLength"]),
    minimum: () => typeof value !== "number" || value >= Number(schema["minimum"]),
    maximum: () => typeof value !== "number" || value <= Number(schema["maximum"]),
    minItems: () => !Array.isArray(value) || value.length >= Number(schema["minItems"]),
    maxItems: () => !Array.isArray(value) || value.length <= Number(schema["maxItems"]),
    items: () => !Array.isArray(value) || value.every((one) => accepts(schema["items"] as Json, one, root)),
    prefixItems: () =>
      !Array.isArray(value) ||
      (schema["prefixItems"] as Json[]).every(
        (one, index) => index >= value.length || accepts(one, value[index], root),
      ),
    required: () =>
      !isOf("object", value) || (schema["required"] as string[]).every((key) => Object.hasOwn(value as Json, key)),
    properties: () =>
      !isOf("object", value) ||
      Object.entries(schema["properties"] as Record<string, Json>).every(
        ([key, inner]) => !Object.hasOwn(value as Json, key) || accepts(inner, (value as Json)[key], root),
      ),
    additionalProperties: () =>
      !isOf("object", value) ||
      schema["additionalProperties"] !== false ||
      Object.keys(value as Json).every((key) => Object.hasOwn(schema["properties"] as Json, key)),
  };
  return Object.keys(schema).every((keyword) => !Object.hasOwn(asked, keyword) || asked[keyword]!());
}

function isOf(type: string, value: unknown): boolean {
  if (type === "integer") return Number.isInteger(value);
  if (type === "array") return Array.isArray(value);
  if (type === "null") return value === null;
  return typeof value === type && value !== null && !Array.isArray(value);
}

/** Where a local reference leads; throws where it leads nowhere. */
function follow(root: Json, ref: string): Json {
  if (!ref.startsWith("#/") && ref !== "#") {
    const found = Object.values((root["$defs"] ?? {}) as Record<string, Json>).find(
      (one) => `#${String(one["$anchor"])}` === ref,
    );
    if (!found) throw new Error(`${ref} leads nowhere`);
    return found;
  }
  let at: unknown = root;
  for (const key of ref.split("/").slice(1)) {
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) throw new Error(`${ref} leads nowhere`);
    at = (at as Json)[key];
  }
  return at as Json;
}
