import { STATUS_CODES } from "node:http";
import { toJsonSchema } from "@valibot/to-json-schema";
import { getTitle, type GenericSchema } from "valibot";
import { isObject } from "../../core/json.ts";
import { adoptSchema } from "./adopt-schema.ts";
import type { Json } from "../catalog.ts";
import { createNames, toPascalCase } from "./names.ts";

type Side = "input" | "output";

/** The components of a document, which grow with its operations. A component has a name that is an identifier. */
export interface Components {
  readonly schemas: Readonly<Record<string, Json>>;
  readonly responses: Readonly<Record<string, Json>>;
  /** Converts a schema of a route. A schema with a `v.title()` becomes the component of that name. */
  convert(schema: GenericSchema, side: Side): Json;
  /** Adds a schema of the author. Returns a reference to it. */
  adopt(schema: Json, wanted: string): Json;
  /** Adds a schema whose references are components already. Returns a reference to it. */
  add(schema: Json, wanted: string): Json;
  /** Returns the schema that a reference leads to. */
  resolve(schema: Json): Json;
  /** Returns a reference to the response of an error. The status may be `default`. */
  toError(status: string, description: string): Json;
}

export function createComponents(): Components {
  const toName = createNames("");
  const toResponseName = createNames("");
  const schemas: Record<string, Json> = { [toName("Error")]: errorSchema };
  const responses: Record<string, Json> = {};
  const errors = new Map<string, Json>();
  const converted = { input: new Map<GenericSchema, Json>(), output: new Map<GenericSchema, Json>() };
  return { schemas, responses, convert, adopt, add, resolve, toError };

  /** Converts each schema only once. Schemas that all workflows share would otherwise be converted for each of them. */
  function convert(schema: GenericSchema, side: Side): Json {
    const known = converted[side].get(schema) ?? toJson(schema, side);
    converted[side].set(schema, known);
    return known;
  }

  function toJson(schema: GenericSchema, side: Side): Json {
    const titles = new Map<string, string>();
    const {
      $schema: _,
      $defs = {},
      ...json
    } = toJsonSchema(schema, {
      target: "draft-2020-12",
      typeMode: side,
      errorMode: "ignore",
      overrideRef({ referenceId, valibotSchema }) {
        const title = getTitle(valibotSchema as GenericSchema);
        if (title === undefined) throw new Error("/doc: a recursive schema needs a v.title()");
        titles.set(referenceId, title);
        return toRef("schemas", title)["$ref"] as string;
      },
    });
    // A definition has its title, so it becomes a component.
    for (const [id, definition] of Object.entries($defs)) if (titles.has(id)) hoist(definition);
    return hoist(json) as Json;
  }

  /** Moves schemas with a title to the components, and adds the type of a constant. */
  function hoist(value: unknown): unknown {
    if (Array.isArray(value)) return value.map(hoist);
    if (!isObject(value)) return value;
    const { title, ...rest } = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, hoist(one)]));
    if ("const" in rest && !isObject(rest["const"])) rest["type"] ??= typeof rest["const"];
    if (typeof title !== "string") return title === undefined ? rest : { ...rest, title };
    const known = schemas[title];
    if (known && JSON.stringify(known) !== JSON.stringify(rest))
      throw new Error(`/doc: two schemas have the title ${title}`);
    if (!known) schemas[toName(title)] = rest;
    return toRef("schemas", title);
  }

  function adopt(schema: Json, wanted: string): Json {
    if (Object.keys(schema).length === 0) return {};
    const { name, components } = adoptSchema(schema, wanted, toName);
    Object.assign(schemas, components);
    return toRef("schemas", name);
  }

  function add(schema: Json, wanted: string): Json {
    const name = toName(wanted);
    schemas[name] = schema;
    return toRef("schemas", name);
  }

  function resolve(schema: Json): Json {
    const [, name] = /^#\/components\/schemas\/(\w+)$/.exec(String(schema["$ref"])) ?? [];
    return name === undefined ? schema : schemas[name]!;
  }

  function toError(status: string, description: string): Json {
    const key = `${status} ${description}`;
    const known = errors.get(key);
    if (known) return known;
    const name = toResponseName(toPascalCase(STATUS_CODES[status] ?? `Error ${status}`));
    responses[name] = { description, content: { "application/json": { schema: toRef("schemas", "Error") } } };
    const made = toRef("responses", name);
    errors.set(key, made);
    return made;
  }
}

const toRef = (kind: "schemas" | "responses", name: string): Json => ({ $ref: `#/components/${kind}/${name}` });

const errorSchema = {
  type: "object",
  properties: {
    success: { type: "boolean", const: false },
    error: { type: "string" },
    executionId: { type: "string", description: "The execution that the error is about, if it has begun" },
    detail: {
      type: "string",
      description: "The text of a hidden error, or the message of the model's provider, in `agentserve dev`",
    },
    approvals: {
      type: "array",
      items: { type: "object" },
      description: "The tool calls that wait for an approval, if an answer must be an object",
    },
  },
  required: ["success", "error"],
};
