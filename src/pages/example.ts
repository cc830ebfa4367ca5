import { resolveRef } from "./refs.ts";

type Schema = Readonly<Record<string, unknown>>;

/** A small value that a JSON Schema takes, as far as it can be told: what is not required is left out. */
export function toExample(root: Schema): unknown {
  let left = maxNodes;

  function make(schema: unknown, depth: number): unknown {
    if (!isSchema(schema) || left-- <= 0 || depth > maxDepth) return null;
    for (const key of ["const", "default", "example"]) if (key in schema) return schema[key];
    for (const key of ["examples", "enum"]) {
      const values = schema[key];
      if (Array.isArray(values) && values.length > 0) return values[0];
    }
    const { $ref, allOf, anyOf, oneOf, ...rest } = schema;
    if (typeof $ref === "string") return make(merge(rest, resolveRef(root, $ref)), depth + 1);
    if (Array.isArray(allOf)) return make(allOf.reduce(merge, { ...rest, anyOf, oneOf }), depth + 1);
    const options = anyOf ?? oneOf;
    if (Array.isArray(options)) return make(merge(rest, options.find(isNotNull) ?? options[0]), depth + 1);
    return makeTyped(schema, depth);
  }

  function makeTyped(schema: Schema, depth: number): unknown {
    switch (typeOf(schema)) {
      case "object":
        return makeObject(schema, depth);
      case "array":
        return makeArray(schema, depth);
      case "integer":
      case "number":
        return toNumber(schema);
      case "boolean":
        return true;
      case "null":
        return null;
      case "string":
        return toText(schema);
      default:
        return depth === 0 ? {} : "text";
    }
  }

  function makeObject({ properties, required }: Schema, depth: number): unknown {
    const schemas = isSchema(properties) ? properties : {};
    const names = Array.isArray(required) ? required.slice(0, maxNodes).map(String) : [];
    // Not by assignment: a property may be called __proto__.
    return Object.fromEntries(names.map((name) => [name, make(own(schemas, name) ?? {}, depth + 1)]));
  }

  function makeArray({ prefixItems, items, minItems, maxItems }: Schema, depth: number): unknown {
    if (Array.isArray(prefixItems)) return prefixItems.slice(0, maxNodes).map((item) => make(item, depth + 1));
    const least = typeof minItems === "number" ? Math.min(minItems, 10) : 0;
    const length = maxItems === 0 ? 0 : Math.max(1, least);
    return Array.from({ length }, () => make(items ?? {}, depth + 1));
  }

  return make(root, 0);
}

const maxNodes = 200;
const maxDepth = 16;

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isNotNull = (schema: unknown): boolean => isSchema(schema) && schema["type"] !== "null";
const own = (schemas: Schema, name: string): unknown => (Object.hasOwn(schemas, name) ? schemas[name] : undefined);

function merge(left: Schema, right: unknown): Schema {
  if (!isSchema(right)) return left;
  const both = { ...left, ...right };
  const [mine, theirs] = [left["properties"], right["properties"]];
  if (isSchema(mine) && isSchema(theirs)) Object.assign(both, { properties: { ...mine, ...theirs } });
  const required = [left["required"], right["required"]].filter(Array.isArray).flat();
  return required.length > 0 ? { ...both, required } : both;
}

function typeOf({ type, properties, required, items, prefixItems }: Schema): unknown {
  if (Array.isArray(type)) return type.find((one) => one !== "null") ?? "null";
  if (type !== undefined) return type;
  if (properties ?? required) return "object";
  return (items ?? prefixItems) ? "array" : undefined;
}

function toNumber(schema: Schema): number {
  const number = (key: string, otherwise: number): number => {
    const value = schema[key];
    return typeof value === "number" ? value : otherwise;
  };
  const above = number("exclusiveMinimum", -Infinity);
  const below = number("exclusiveMaximum", Infinity);
  const least = Math.max(number("minimum", -Infinity), above);
  const most = Math.min(number("maximum", Infinity), below);
  const step = number("multipleOf", schema["type"] === "integer" ? 1 : 0);
  const fit = (value: number): number => (step > 0 ? Math.ceil(value / step) * step : value);
  const isRight = (value: number): boolean =>
    Number.isFinite(value) && value >= least && value <= most && value !== above && value !== below;
  const tried = [1, least, least + (step || 1), (least + most) / 2, most, most - (step || 1)];
  return tried.map(fit).find(isRight) ?? 1;
}

function toText({ format, minLength, maxLength }: Schema): string {
  const text = formats[String(format)] ?? "text";
  const least = typeof minLength === "number" ? Math.min(minLength, maxNodes) : 0;
  return text.padEnd(least, "x").slice(0, typeof maxLength === "number" ? maxLength : undefined);
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
