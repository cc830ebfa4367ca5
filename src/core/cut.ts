/** Max characters of a client's or a step's value in a message. */
const maxOfValue = 200;

/** Cuts a text, so that a message does not repeat a value of any size. Does not split a surrogate pair. */
export function cut(text: string, max: number = maxOfValue): string {
  return text.length > max ? `${text.slice(0, max).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
}

/** A value as a message shows it: texts in quotes, objects as JSON. */
export function quote(value: unknown): string {
  if (typeof value === "string") return cut(JSON.stringify(value));
  if (typeof value === "function") return "a function";
  if (typeof value !== "object" || value instanceof Date) return cut(String(value));
  try {
    return cut(JSON.stringify(value));
  } catch {
    return "an object";
  }
}
