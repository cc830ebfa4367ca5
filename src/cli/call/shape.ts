import type { JsonSchema } from "../../core/json-schema.ts";

/** `{"approved":<boolean>}`: what a schema asks for, at a glance. It is not JSON, so that nobody sends it as it is. */
export function toShape(schema: unknown, depth = 0): string {
  const { type, properties } = (schema ?? {}) as JsonSchema;
  if (type !== "object" || typeof properties !== "object" || properties === null || depth > 2) {
    return typeof type === "string" ? `<${type.slice(0, 20)}>` : "<json>";
  }
  const fields = Object.entries(properties).slice(0, 10);
  const shown = fields.map(([name, inner]) => `${JSON.stringify(name.slice(0, 60))}:${toShape(inner, depth + 1)}`);
  return `{${shown.join(",")}}`;
}
