import { toShellWord } from "../core/terminal/shell.ts";

export interface Call {
  readonly url: string;
  /** Appended to the URL without quoting, for variables of the shell. */
  readonly rest?: string | undefined;
  readonly needsToken: boolean;
  readonly body: unknown;
}

/** Returns a curl command. Everything in it is quoted, so that it can be pasted into a shell. */
export function toCurl({ url, rest = "", needsToken, body }: Call): string {
  const lines = [
    `curl ${toShellWord(url)}${rest}`,
    needsToken && `-H "authorization: Bearer $TOKEN"`,
    `-H 'content-type: application/json'`,
    `-d ${toShellWord(toJson(body))}`,
  ];
  return lines.filter(Boolean).join(" \\\n  ");
}

/**
 * Serializes a value. Invisible and bidirectional characters are escaped, because they would be lost when the text is
 * copied.
 */
function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  const short = text.length > maxLetters ? "{}" : text;
  return short.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (letters) => letters.split("").map(toEscape).join(""));
}

const maxLetters = 4_000;
const toEscape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
