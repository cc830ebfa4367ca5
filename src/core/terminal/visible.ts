import { cut } from "../cut.ts";

// Control characters, bidirectional marks, and invisible characters: they reorder or hide the text around them. Joiners
// and variation selectors are kept: scripts and emoji need them.
const unsafe = /(?![\u{200C}-\u{200D}])(?![\u{FE00}-\u{FE0F}])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}]/gu;

/**
 * Makes untrusted text safe for a terminal. Control and invisible characters are escaped, so that the text cannot move
 * the cursor, imitate a separate line or hide a part. `allowed` lists the characters to keep. `max` limits the length.
 */
export function toVisible(
  text: string,
  { allowed = "", max = Infinity }: { allowed?: string; max?: number } = {},
): string {
  return cut(text, max).replace(unsafe, (letter) => {
    if (allowed.includes(letter)) return letter;
    const code = (letter.codePointAt(0) ?? 0).toString(16);
    if (code.length > 4) return `\\u{${code}}`;
    return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
  });
}

/** Makes JSON safe for a terminal. Characters inside strings are escaped, so the value of the JSON is the same. */
export function toVisibleJson(json: string): string {
  return json.replace(unsafe, (letter) => {
    if (letter === "\n") return letter; // between values: inside strings it is escaped already
    const units = Array.from({ length: letter.length }, (_, at) => letter.charCodeAt(at));
    return units.map((unit) => `\\u${unit.toString(16).padStart(4, "0")}`).join("");
  });
}
