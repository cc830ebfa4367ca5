/** The part of JSON Schema that forms are made from. */
export interface JsonSchema {
  readonly type?: string | readonly string[];
  readonly title?: string;
  readonly description?: string;
  readonly properties?: Readonly<Record<string, JsonSchema>>;
  readonly required?: readonly string[];
  readonly items?: JsonSchema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly format?: string;
  readonly minimum?: number;
  readonly maximum?: number;
  readonly minLength?: number;
  readonly maxLength?: number;
  readonly anyOf?: readonly JsonSchema[];
  readonly oneOf?: readonly JsonSchema[];
  readonly $ref?: string;
  readonly $defs?: Readonly<Record<string, JsonSchema>>;
  readonly definitions?: Readonly<Record<string, JsonSchema>>;
}

/** The kind of input that a schema gets. A value that a form cannot express is edited as JSON. */
export type FieldKind = "text" | "number" | "boolean" | "choice" | "object" | "list" | "json";

export function toKind({ type, enum: choices, properties, items, ...schema }: JsonSchema): FieldKind {
  if (schema.$ref !== undefined || schema.anyOf || schema.oneOf || schema.const !== undefined) return "json";
  if (choices) return choices.every((one) => typeof one === "string") ? "choice" : "json";
  if (type === "string") return "text";
  if (type === "number" || type === "integer") return "number";
  if (type === "boolean") return "boolean";
  if (type === "object" && properties) return "object";
  if (type === "array" && items && !Array.isArray(items)) return "list";
  return "json";
}

/** Follows references to definitions of the same schema, and alternatives of which all but one are `null`. */
export function resolve(schema: JsonSchema, root: JsonSchema): JsonSchema {
  let found = schema;
  for (let steps = 0; steps < 20; steps++) {
    const name = /^#\/(?:\$defs|definitions)\/([^/]+)$/.exec(found.$ref ?? "")?.[1];
    if (name === undefined) break;
    found = root.$defs?.[name] ?? root.definitions?.[name] ?? {};
  }
  const real = (found.anyOf ?? found.oneOf)?.filter(({ type }) => type !== "null");
  return real?.length === 1 ? ({ ...found, anyOf: undefined, oneOf: undefined, ...real[0] } as JsonSchema) : found;
}

/** Returns the value that a form begins with. Undefined: the field is left out. */
export function toInitial(schema: JsonSchema, root: JsonSchema, isRequired = true): unknown {
  const found = resolve(schema, root);
  if (found.default !== undefined) return found.default;
  if (found.const !== undefined) return found.const;
  if (!isRequired) return undefined;
  const kind = toKind(found);
  if (kind === "object") {
    const required = new Set(found.required);
    const entries = Object.entries(found.properties ?? {}).map(([name, child]) => [
      name,
      toInitial(child, root, required.has(name)),
    ]);
    return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
  }
  if (kind === "list") return [];
  if (kind === "boolean") return false;
  return undefined;
}

/** Returns true if a form of the schema has a field with this path, as the server writes it: `items.0.name`. */
export function hasField(path: string, root: JsonSchema): boolean {
  let schema = resolve(root, root);
  for (const part of path.split(".")) {
    const kind = toKind(schema);
    const child = kind === "object" ? schema.properties?.[part] : kind === "list" ? schema.items : undefined;
    if (!child) return false;
    schema = resolve(child, root);
  }
  return !["object", "list"].includes(toKind(schema));
}
