import { attempt } from "./attempt.ts";
import { cut } from "./cut.ts";

/** A value serialized to JSON. It is written to the journal unchanged, and each parse yields a fresh copy. */
export type JsonText = string;

/** Parses JSON text. Undefined in, undefined out. */
export function fromJsonText(text: JsonText | undefined): unknown {
  return text === undefined ? undefined : JSON.parse(text);
}

/** Parses JSON text. Returns undefined if it is invalid: JSON itself has no undefined. */
export const tryParseJson = (text: string): unknown => attempt(() => JSON.parse(text) as unknown);

export const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === "object" && value !== null && !Array.isArray(value);
/** Returns the value if it is an object, or else an empty object. */
export const toObject = (value: unknown): Record<string, unknown> => (isObject(value) ? value : {});

/** The error about a value that is too large, or that JSON would lose or change. */
export class UnstorableError extends TypeError {}

/**
 * Serializes a value to JSON. Returns undefined for undefined, and omits undefined properties. Throws an
 * `UnstorableError` for a value that JSON would lose or change, and names its path: `result.when is a Date: use a string`.
 */
export function toJsonText(value: unknown, what: string, maxBytes: number = Infinity): JsonText | undefined {
  if (value === undefined) return undefined;
  checkPlain(value, what, []);
  const text = JSON.stringify(value);
  // A UTF-16 unit takes at most three bytes in UTF-8, so short texts need no measuring.
  if (text.length * 3 > maxBytes && Buffer.byteLength(text) > maxBytes) {
    throw new UnstorableError(`${what} is ${Buffer.byteLength(text)} bytes as JSON: the limit is ${maxBytes}`);
  }
  return text;
}

/**
 * Returns the path of an infinite number: `1e999` is valid JSON, but too large for JavaScript. Returns undefined if
 * there is none. `text` is the JSON of the value. Few texts have such long numbers, so most need no walk.
 */
export function findInfinity(value: unknown, text: string): readonly string[] | undefined {
  return /\d[eE]\+?\d{3}|(?:^|\D)\d{200}/.test(text) ? pathToInfinity(value) : undefined;
}

function pathToInfinity(value: unknown): string[] | undefined {
  if (typeof value === "number") return Number.isFinite(value) ? undefined : [];
  if (typeof value !== "object" || value === null) return undefined;
  for (const [key, inner] of Object.entries(value)) {
    const path = pathToInfinity(inner);
    if (path) return [key, ...path];
  }
  return undefined;
}

/** Returns true if a value is nested deeper than `depth` levels. Does not descend any further. */
export function isDeeper(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  if (depth === 0) return true;
  return Object.values(value).some((inner) => isDeeper(inner, depth - 1));
}

/**
 * Returns true if valid JSON text is nested deeper than `depth` levels. A walk of the value takes longer than to
 * parse it if its objects have very many keys. Few texts have more than `depth` brackets, so most are not scanned.
 */
export function isTextDeeper(text: string, depth: number): boolean {
  return hasMoreBrackets(text, depth) && scanDepth(text, depth) > depth;
}

function hasMoreBrackets(text: string, max: number): boolean {
  let count = 0;
  for (const bracket of ["{", "["]) {
    for (let at = text.indexOf(bracket); at !== -1; at = text.indexOf(bracket, at + 1)) {
      if (++count > max) return true;
    }
  }
  return false;
}

/** Returns the nesting depth. Ends at the first place deeper than `max`. */
function scanDepth(text: string, max: number): number {
  let open = 0;
  let deepest = 0;
  for (let index = 0; index < text.length && deepest <= max; index++) {
    const letter = text[index];
    if (letter === '"') index = endOfString(text, index);
    else if (letter === "{" || letter === "[") deepest = Math.max(deepest, ++open);
    else if (letter === "}" || letter === "]") open--;
  }
  return deepest;
}

/** Returns the index of the quote that closes a string, or the length of the text if there is none. */
function endOfString(text: string, start: number): number {
  for (let end = text.indexOf('"', start + 1); end !== -1; end = text.indexOf('"', end + 1)) {
    let slashes = 0;
    while (text[end - 1 - slashes] === "\\") slashes++;
    if (slashes % 2 === 0) return end;
  }
  return text.length;
}

/**
 * Returns true if JSON text has more than `max` characters beside its long strings. A long string takes little time to
 * parse, other text a multiple of it: 25 MB of keys block the event loop for 2 s.
 */
export function isMoreThanStrings(text: string, max: number): boolean {
  let length = 0;
  let index = 0;
  while (index < text.length && length <= max) {
    const start = text.indexOf('"', index);
    if (start === -1) return length + text.length - index > max;
    const end = endOfString(text, start);
    length += start - index + (end - start < longString ? end - start : 2);
    index = end + 1;
  }
  return length > max;
}
const longString = 256;

const maxDepth = 500;

function checkPlain(value: unknown, place: string, ancestors: object[]): void {
  switch (typeof value) {
    case "string":
    case "boolean":
      return;
    case "number":
      if (Number.isFinite(value)) return;
      throw unstorable(place, `${value}: use null or a string`);
    case "object":
      break;
    default:
      throw unstorable(place, named[typeof value] ?? typeof value);
  }
  if (value === null) return;
  if (ancestors.includes(value)) throw unstorable(place, "a circular reference");
  if (ancestors.length >= maxDepth) throw unstorable(place, `nested deeper than ${maxDepth} levels`);
  ancestors.push(value);
  if (Array.isArray(value)) {
    for (let index = 0; index < value.length; index++) checkPlain(value[index], `${place}[${index}]`, ancestors);
  } else {
    const prototype: unknown = Object.getPrototypeOf(value);
    if (prototype !== Object.prototype && prototype !== null) throw unstorable(place, instance(value));
    for (const key of Object.keys(value)) {
      const inner = (value as Record<string, unknown>)[key];
      if (inner !== undefined) checkPlain(inner, `${place}.${key}`, ancestors);
    }
  }
  ancestors.pop();
}

const unstorable = (place: string, what: string): UnstorableError => new UnstorableError(`${cut(place)} is ${what}`);

const named: Record<string, string> = {
  bigint: "a BigInt: use a number or a string",
  function: "a function: use plain data",
  symbol: "a symbol: use a string",
  undefined: "undefined: use null",
};

function instance(value: object): string {
  if (value instanceof Date) return "a Date: use a string";
  return `a ${value.constructor?.name || "class instance"}: use a plain object`;
}

/** Freezes plain JSON and every value in it. */
export function deepFreeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(deepFreeze);
  return value;
}
