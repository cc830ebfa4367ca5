type Json = Record<string, unknown>;

/**
 * A value that fits a JSON Schema, as far as a few lines can: texts are the text given. It follows local references, but
 * makes no more than a thousand values, whatever the schema says.
 */
export function fill(schema: unknown, text: string): unknown {
  const budget = { left: 1_000 };
  return fillOne(schema, { root: schema, text, budget }, 0);
}

interface Filling {
  readonly root: unknown;
  readonly text: string;
  readonly budget: { left: number };
}

function fillOne(schema: unknown, filling: Filling, depth: number): unknown {
  if (!isObject(schema) || filling.budget.left-- <= 0 || depth > 64) return null;
  if (typeof schema["$ref"] === "string") return fillOne(find(filling.root, schema["$ref"]), filling, depth + 1);
  if ("const" in schema) return schema["const"];
  if ("default" in schema) return schema["default"];
  for (const key of ["enum", "examples"]) if (Array.isArray(schema[key])) return schema[key][0];
  for (const key of ["oneOf", "anyOf", "allOf"]) {
    if (Array.isArray(schema[key]))
      return fillOne({ ...schema, ...toObject(schema[key][0]), [key]: undefined }, filling, depth + 1);
  }
  return fillType([schema["type"]].flat()[0] ?? ("properties" in schema ? "object" : "string"), schema, filling, depth);
}

function fillType(type: unknown, schema: Json, filling: Filling, depth: number): unknown {
  switch (type) {
    case "object":
      return fillObject(schema, filling, depth);
    case "array": {
      const items = Array.from({ length: Math.min(Number(schema["minItems"] ?? 1), 10) });
      const prefix = Array.isArray(schema["prefixItems"]) ? schema["prefixItems"] : [];
      return items.map((_, index) => fillOne(prefix[index] ?? schema["items"] ?? {}, filling, depth + 1));
    }
    case "integer":
    case "number": {
      const found = Number(/-?\d+(\.\d+)?/.exec(filling.text)?.[0] ?? 0);
      const least = Number(schema["minimum"] ?? schema["exclusiveMinimum"] ?? found);
      const most = Number(schema["maximum"] ?? schema["exclusiveMaximum"] ?? found);
      const value = Math.min(Math.max(found, least), most);
      return type === "integer" ? Math.trunc(value) : value;
    }
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return fillText(schema, filling.text);
  }
}

/** What is required, and near the root what is not: a part that may be left out need not be endless. */
function fillObject(schema: Json, filling: Filling, depth: number): Json {
  const properties = toObject(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const names = new Set([...Object.keys(properties), ...required]);
  const wanted = [...names].filter((name) => depth < 4 || required.includes(name));
  const entries = wanted.map((name): [string, unknown] => {
    return [name, fillOne(Object.hasOwn(properties, name) ? properties[name] : {}, filling, depth + 1)];
  });
  return Object.fromEntries(entries);
}

const formats: Record<string, string> = {
  "date-time": "2026-01-01T00:00:00Z",
  date: "2026-01-01",
  time: "00:00:00Z",
  email: "echo@example.com",
  uri: "https://example.com",
  uuid: "00000000-0000-4000-8000-000000000000",
};

function fillText({ format, minLength, maxLength }: Json, text: string): string {
  if (typeof format === "string" && Object.hasOwn(formats, format)) return formats[format]!;
  const most = Math.min(Number(maxLength ?? 1_000), 10_000);
  return text.slice(0, most).padEnd(Math.min(Number(minLength ?? 0), most), ".");
}

/** What a local `$ref` points at. */
function find(root: unknown, pointer: string): unknown {
  const names = pointer
    .split("/")
    .slice(1)
    .map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
  let at: unknown = root;
  for (const name of names) at = isObject(at) && Object.hasOwn(at, name) ? at[name] : undefined;
  return at;
}

const isObject = (value: unknown): value is Json => typeof value === "object" && value !== null;
const toObject = (value: unknown): Json => (isObject(value) ? value : {});
