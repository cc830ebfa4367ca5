/** Max characters of a client's or a step's value in a message. */
const maxOfValue = 200;

/** Cuts a text, so that a message does not repeat a value of any size. Does not split a surrogate pair. */
export function cut(text: string, max: number = maxOfValue): string {
  return text.length > max ? `${text.slice(0, max).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
}
