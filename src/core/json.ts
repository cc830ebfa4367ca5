import { attempt } from "./attempt.ts";

/** JSON as text: it is written to the journal as it is, and whoever reads it gets a copy of their own. */
export type JsonText = string;

/** The value of a text; no text stands for undefined. */
export function fromJsonText(text: JsonText | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text);
}

/** The value of a text, or undefined when it is not JSON. JSON itself has no undefined. */
export const tryParseJson = (text: string): unknown => attempt(() => JSON.parse(text) as unknown);

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** An object as it is; an empty one in place of anything else. */
export const toObject = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});

/**
 * A value as JSON text. Top-level undefined has none, undefined properties are dropped. What JSON would lose or change is
 * an error that names the place: `result.when is a Date: return a string`.
 */
export function toJsonText(value: unknown, what: string, maxBytes: number = Infinity): JsonText | undefined {
  if (value === undefined) return undefined;
  checkPlain(value, what, []);
  const text = JSON.stringify(value);
  // A character is at most three bytes in UTF-8, so short texts need not be measured.
  if (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes) {
    throw new TypeError(`${what} takes ${Buffer.byteLength(text)} bytes as JSON: at most ${maxBytes} are kept`);
  }
  return text;
}

/** Whether a value is nested deeper than so many levels. It looks no further down than that. */
export function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth === 0) return true;
  return Object.values(value).some((inner) => isDeeper(inner, depth - 1));
}

const maxDepth = 500;

function checkPlain(value: unknown, place: string, ancestors: object[]): void {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (Number.isFinite(value)) return;
      throw new TypeError(`${place} is ${value}: return null or a string`);
    case "object":
      break;
    default:
      throw new TypeError(`${place} is ${named[typeof value]}`);
  }
  if (value === null) return;
  if (ancestors.includes(value)) throw new TypeError(`${place} contains itself`);
  if (ancestors.length >= maxDepth) throw new TypeError(`${place} is nested deeper than ${maxDepth} levels`);
  ancestors.push(value);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) checkPlain(value[index], `${place}[${index}]`, ancestors);
  } else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) throw new TypeError(`${place} is ${instance(value)}`);
    for (const key of Object.keys(value)) {
      const inner = (value as Record<string, unknown>)[key];
      if (inner !== undefined) checkPlain(inner, `${place}.${key}`, ancestors);
    }
  }
  ancestors.pop();
}

const named: Record<string, string> = {
  bigint: "a BigInt: return a number or a string",
  function: "a function: return plain data",
  symbol: "a symbol: return a string",
  undefined: "undefined: return null",
};

function instance(value: object): string {
  if (value instanceof Date) return "a Date: return a string";
  return `a ${value.constructor?.name || "class instance"}: return a plain object`;
}
