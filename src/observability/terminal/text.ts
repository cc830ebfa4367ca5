import { styleText } from "node:util";

export type Style = "red" | "green" | "yellow" | "cyan" | "dim";
/** A part of a line, with its color. */
export interface Part {
  readonly text: string;
  readonly style?: Style | undefined;
}

export const plain = (text: string): Part => ({ text });
export const dim = (text: string): Part => ({ text, style: "dim" });

/** Returns the terminal columns of a text. Wide characters take two, combining ones none. */
export function widthOf(text: string): number {
  let width = 0;
  for (const letter of text) width += widthOfLetter(letter);
  return width;
}

function widthOfLetter(letter: string): number {
  if (letter <= "\u02FF") return 1;
  if (combining.test(letter)) return 0;
  return wide.test(letter) ? 2 : 1;
}
const combining = /[\p{M}\u{200C}-\u{200D}]/u;
const wide =
  /[\u1100-\u115F\u2E80-\uA4CF\uAC00-\uD7A3\uF900-\uFAFF\uFE30-\uFE6F\uFF00-\uFF60\uFFE0-\uFFE6\u{20000}-\u{3FFFF}]|\p{Emoji_Presentation}/u;

export const widthOfParts = (parts: readonly Part[]): number =>
  parts.reduce((width, { text }) => width + widthOf(text), 0);

/** Cuts a line to a number of columns. The last one is then an ellipsis. */
export function fit(parts: readonly Part[], columns: number): Part[] {
  if (widthOfParts(parts) <= columns) return [...parts];
  const fitted: Part[] = [];
  let left = columns - 1;
  for (const { text, style } of parts) {
    const head = headOf(text, left);
    fitted.push({ text: head, style });
    left -= widthOf(head);
    if (head !== text) break;
  }
  return [...fitted, plain("…")];
}

/** Breaks a text at spaces. The first line has room for `first` columns, each other one for `rest`. */
export function wrap(text: string, first: number, rest: number = first): string[] {
  const lines: string[] = [];
  let left = text;
  while (lines.length < maxLines) {
    const room = Math.max(lines.length === 0 ? first : rest, minColumns);
    const head = headOf(left, room);
    if (head === left) return [...lines, left];
    const space = head.lastIndexOf(" ");
    const at = space > room / 2 ? space : head.length;
    lines.push(left.slice(0, at));
    left = left.slice(at).trimStart();
  }
  return [...lines, "…"];
}
/** Max lines of one message. */
const maxLines = 20;
const minColumns = 10;

/** Returns as much of a text as fits. */
function headOf(text: string, columns: number): string {
  let width = 0;
  let end = 0;
  for (const letter of text) {
    width += widthOfLetter(letter);
    if (width > columns) return text.slice(0, end);
    end += letter.length;
  }
  return text;
}

/** Colors a line. `styleText` checks that stderr is a terminal, NO_COLOR and FORCE_COLOR. */
export function paint(parts: readonly Part[]): string {
  return parts
    .map(({ text, style }) => (style && text ? styleText(style, text, { stream: process.stderr }) : text))
    .join("");
}
