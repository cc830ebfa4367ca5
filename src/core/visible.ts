import { cut } from "./cut.ts";

/**
 * Makes untrusted text safe for a terminal. Control characters are escaped, so that the text cannot move the cursor or
 * imitate a separate line. `allowed` lists the control characters to keep. `most` limits the length.
 */
export function toVisible(
  text: string,
  { allowed = "", most = Infinity }: { allowed?: string; most?: number } = {},
): string {
  // Bidirectional marks would reorder the text around them.
  return cut(text, most).replace(
    /[\p{Cc}\u{2028}\u{2029}\u{61C}\u{200E}\u{200F}\u{202A}-\u{202E}\u{2066}-\u{2069}]/gu,
    (letter) => {
      if (allowed.includes(letter)) return letter;
      const code = letter.codePointAt(0)!.toString(16);
      return code.length > 2 ? `\\u${code.padStart(4, "0")}` : `\\x${code.padStart(2, "0")}`;
    },
  );
}
