import { toErrorMessage } from "../../core/error.ts";
import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { isObject, toObject } from "../../core/json.ts";
import { UserError } from "../../core/user-error.ts";
import { askChoice, askText, askYesNo } from "./prompt.ts";
import { toShort } from "./screen.ts";

interface Field {
  readonly name: string;
  readonly schema: JsonSchema;
  readonly isRequired: boolean;
  readonly depth: number;
}

/** Asks for a value that matches a JSON Schema, field by field. Returns undefined if the value was left out. */
export function fillForm(schema: unknown, name: string, isRequired: boolean): Promise<unknown> {
  return askFor({ name, schema: toObject(schema), isRequired, depth: 0 });
}

const maxFields = 50;
const maxDepth = 4;
const maxTries = 20;

function askFor(field: Field): Promise<unknown> {
  const { schema, depth } = field;
  if ("const" in schema) return Promise.resolve(schema["const"]);
  if (Array.isArray(schema["enum"]) && schema["enum"].length > 0) return askOneOf(field, schema["enum"].slice(0, 200));
  const { properties } = schema;
  const isForm = isObject(properties) && Object.keys(properties).length <= maxFields && depth < maxDepth;
  switch (schema["type"]) {
    case "boolean":
      return askBoolean(field);
    case "string":
      return askTyped(field, "text", (text) => text);
    case "number":
      return askTyped(field, "number", toNumber);
    case "integer":
      return askTyped(field, "whole number", toInteger);
    case "object":
      if (isForm) return askObject(field, Object.entries(properties));
  }
  return askTyped(field, "JSON", (text) => JSON.parse(text) as unknown);
}

async function askObject(field: Field, properties: [string, unknown][]): Promise<unknown> {
  const { schema, isRequired, depth } = field;
  if (!isRequired && depth > 0 && !(await askYesNo(`${toLabel(field)} Fill it in?`, false))) return undefined;
  const required = Array.isArray(schema["required"]) ? schema["required"] : [];
  const values: [string, unknown][] = [];
  for (const [key, inner] of properties) {
    const name = depth === 0 ? key : `${field.name}.${key}`;
    const one = { name, schema: toObject(inner), isRequired: required.includes(key), depth: depth + 1 };
    const value = await askFor(one);
    if (value !== undefined) values.push([key, value]);
  }
  return Object.fromEntries(values);
}

async function askBoolean(field: Field): Promise<unknown> {
  const { schema, isRequired } = field;
  if (isRequired || "default" in schema) return askYesNo(toLabel(field), schema["default"] === true);
  return [true, false, undefined][await askChoice(toLabel(field), ["Yes", "No", leaveOut], 2)];
}

async function askOneOf(field: Field, values: readonly unknown[]): Promise<unknown> {
  const { schema, isRequired } = field;
  const labels = values.map((value) => toShort(value, 100));
  if (!isRequired) labels.push(leaveOut);
  const initial = "default" in schema ? values.indexOf(schema["default"]) : isRequired ? 0 : values.length;
  return values[await askChoice(toLabel(field), labels, Math.max(initial, 0))];
}

/** Asks until the text can be parsed, at most `maxTries` times. */
async function askTyped(field: Field, kind: string, parse: (text: string) => unknown): Promise<unknown> {
  const { schema, isRequired } = field;
  const hasDefault = "default" in schema;
  const empty = hasDefault ? `Enter: ${toShort(schema["default"], 60)}` : isRequired ? "" : "Enter: skip";
  let label = toLabel(field, kind);
  for (let tries = 0; tries < maxTries; tries++) {
    const text = await askText(label, empty);
    if (text === "" && hasDefault) return schema["default"];
    if (text === "" && !isRequired) return undefined;
    try {
      return parse(text);
    } catch (error) {
      label = `${toLabel(field, kind)} expected ${error instanceof SyntaxError ? "JSON" : toErrorMessage(error)}`;
    }
  }
  throw new UserError(`${toShort(field.name, 100)}: no valid ${kind} after ${maxTries} tries`);
}

const leaveOut = "(skip)";

/** Returns a label such as `amount: How much it is (number)`. */
function toLabel({ name, schema }: Field, kind?: string): string {
  const about = schema["description"] ?? schema["title"];
  const parts = [`${toShort(name, 100)}${typeof about === "string" ? `: ${toShort(about, 200)}` : ""}`];
  if (kind && kind !== "text") parts.push(`(${kind})`);
  return parts.join(" ");
}

function toNumber(text: string): number {
  const number = text.trim() === "" ? Number.NaN : Number(text);
  if (!Number.isFinite(number)) throw new TypeError("a number");
  return number;
}

function toInteger(text: string): number {
  const number = toNumber(text);
  if (!Number.isSafeInteger(number)) throw new TypeError("a whole number");
  return number;
}
