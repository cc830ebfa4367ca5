/** The most characters of a client's or a step's value in a message. */
const mostOfValue = 200;

/** Cuts a text, so that a message does not repeat a value of any size. Does not split a surrogate pair. */
export function cut(text: string, most: number = mostOfValue): string {
  return text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, "")}…` : text;
}
