import { STATUS_CODES } from "node:http";
import { toJsonSchema } from "@valibot/to-json-schema";
import { getTitle, type GenericSchema } from "valibot";
import { isObject } from "../../core/json.ts";
import { adoptSchema } from "./adopt-schema.ts";
import type { Json } from "../catalog.ts";
import { createNames, toPascalCase } from "./names.ts";

type Side = "input" | "output";

/** The components of a document, which grow with its operations. A component has a name that is an identifier. */
export class Components {
  readonly #toName = createNames("");
  readonly #toResponseName = createNames("");
  readonly #errors = new Map<string, Json>();
  readonly #converted = { input: new Map<GenericSchema, Json>(), output: new Map<GenericSchema, Json>() };
  readonly schemas: Record<string, Json> = { [this.#toName("Error")]: errorSchema };
  readonly responses: Record<string, Json> = {};

  /**
   * Converts a schema of a route, once: schemas that all workflows share would otherwise be converted for each of them.
   * A schema with a `v.title()` becomes the component of that name.
   */
  convert(schema: GenericSchema, side: Side): Json {
    const known = this.#converted[side].get(schema) ?? this.#toJson(schema, side);
    this.#converted[side].set(schema, known);
    return known;
  }

  /** Adds a schema of the author. Returns a reference to it. */
  adopt(schema: Json, wanted: string): Json {
    if (Object.keys(schema).length === 0) return {};
    const { name, components } = adoptSchema(schema, wanted, this.#toName);
    Object.assign(this.schemas, components);
    return toRef("schemas", name);
  }

  /** Adds a schema whose references are components already. Returns a reference to it. */
  add(schema: Json, wanted: string): Json {
    const name = this.#toName(wanted);
    this.schemas[name] = schema;
    return toRef("schemas", name);
  }

  /** Returns the schema that a reference leads to. */
  resolve(schema: Json): Json {
    const [, name = ""] = /^#\/components\/schemas\/(\w+)$/.exec(String(schema["$ref"])) ?? [];
    return this.schemas[name] ?? schema;
  }

  /** Returns a reference to the response of an error. The status may be `default`. */
  toErrorResponseRef(status: string, description: string): Json {
    const key = `${status} ${description}`;
    const known = this.#errors.get(key);
    if (known) return known;
    const name = this.#toResponseName(toPascalCase(STATUS_CODES[status] ?? `Error ${status}`));
    this.responses[name] = { description, content: { "application/json": { schema: toRef("schemas", "Error") } } };
    const made = toRef("responses", name);
    this.#errors.set(key, made);
    return made;
  }

  #toJson(schema: GenericSchema, side: Side): Json {
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
    for (const [id, definition] of Object.entries($defs)) if (titles.has(id)) this.#hoist(definition);
    return this.#hoist(json) as Json;
  }

  /** Moves schemas with a title to the components, and adds the type of a constant. */
  #hoist(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((one) => this.#hoist(one));
    if (!isObject(value)) return value;
    const { title, ...rest } = Object.fromEntries(Object.entries(value).map(([key, one]) => [key, this.#hoist(one)]));
    if ("const" in rest && !isObject(rest["const"])) rest["type"] ??= typeof rest["const"];
    if (typeof title !== "string") return title === undefined ? rest : { ...rest, title };
    const known = this.schemas[title];
    if (known && JSON.stringify(known) !== JSON.stringify(rest))
      throw new Error(`/doc: two schemas have the title ${title}`);
    if (!known) this.schemas[this.#toName(title)] = rest;
    return toRef("schemas", title);
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
