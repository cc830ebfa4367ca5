import { isObject } from "../../core/json.ts";

/** Max bytes of a text, and of file data. */
const maxText = 65_536;
const maxFile = 16_384;
const maxDepth = 64;

/**
 * Copies values of a model call as plain JSON, for people. Long texts are cut, long files are replaced by their size. The
 * object around something that is missing has `truncated: true`.
 */
export class ShownValues {
  /** The characters that further values may have. */
  left: number;

  constructor(max: number) {
    this.left = max;
  }

  copy(value: unknown): unknown {
    return this.#copy(value, 0).value;
  }

  #copy(value: unknown, depth: number): Copy {
    this.left -= nodeLength;
    if (typeof value === "string") return this.#copyText(value);
    if (typeof value === "bigint") return whole(String(value));
    if (typeof value !== "object" || value === null) return whole(value);
    if (value instanceof URL) return this.#copyText(value.href);
    if (value instanceof Date) return whole(value);
    if (value instanceof Uint8Array)
      return value.byteLength > maxFile
        ? whole({ bytes: value.byteLength })
        : this.#copyText(Buffer.from(value).toString("base64"));
    if (depth === maxDepth || this.left <= 0) return { value: undefined, isCut: true };
    return Array.isArray(value) ? this.#copyItems(value, depth) : this.#copyFields(value, depth);
  }

  #copyText(text: string): Copy {
    const shown = cutText(text, Math.min(maxText, Math.max(this.left, 0)));
    this.left -= shown.length;
    return { value: shown, isCut: shown.length < text.length };
  }

  #copyItems(items: readonly unknown[], depth: number): Copy {
    const copies: unknown[] = [];
    let isCut = false;
    for (const item of items) {
      if (this.left <= 0) return { value: copies, isCut: true };
      const copy = this.#copy(item, depth + 1);
      copies.push(copy.value ?? null);
      isCut ||= copy.isCut;
    }
    return { value: copies, isCut };
  }

  #copyFields(fields: object, depth: number): Copy {
    const bytes = toFileBytes(fields);
    if (bytes > maxFile) {
      const { type, mediaType, filename } = fields as Record<string, unknown>;
      return this.#copyFields({ type, mediaType, ...(typeof filename === "string" && { filename }), bytes }, depth);
    }
    const copies: Record<string, unknown> = {};
    let isCut = false;
    for (const [name, field] of Object.entries(fields)) {
      const copy = this.#copy(field, depth + 1);
      // A field of this name would be the prototype.
      if (copy.value !== undefined && name !== "__proto__") copies[name] = copy.value;
      isCut ||= copy.isCut;
    }
    return whole(isCut ? { ...copies, truncated: true } : copies);
  }
}

interface Copy {
  readonly value: unknown;
  readonly isCut: boolean;
}
const whole = (value: unknown): Copy => ({ value, isCut: false });

/** The characters that a name or a bracket counts, so that many empty values have a bound as well. */
const nodeLength = 8;

/** Returns the size of the file that a part holds; 0 if it holds none. */
function toFileBytes(part: object): number {
  const { mediaType, data } = part as { mediaType?: unknown; data?: unknown };
  if (typeof mediaType !== "string") return 0;
  const content: unknown = isObject(data) && !(data instanceof Uint8Array) ? data["data"] : data;
  if (content instanceof Uint8Array) return content.byteLength;
  return typeof content === "string" && !/^https?:/.test(content) ? Buffer.byteLength(content, "base64") : 0;
}

/** Returns the beginning of a text, with at most this number of bytes. */
export function cutText(text: string, max: number = maxText): string {
  if (text.length * 3 <= max || Buffer.byteLength(text) <= max) return text;
  const { read } = new TextEncoder().encodeInto(text.slice(0, max), new Uint8Array(max));
  return text.slice(0, read);
}
