import { toShellWord } from "../core/shell.ts";

export interface Call {
  readonly url: string;
  /** Follows the URL as it is: what the shell is to fill in. */
  readonly rest?: string | undefined;
  readonly needsToken: boolean;
  readonly body: unknown;
}

/** A command that a shell runs just as it stands here, whatever is in it. */
export function toCurl({ url, rest = "", needsToken, body }: Call): string {
  const lines = [
    `curl ${toShellWord(url)}${rest}`,
    needsToken && `-H "authorization: Bearer $TOKEN"`,
    `-H 'content-type: application/json'`,
    `-d ${toShellWord(toJson(body))}`,
  ];
  return lines.filter(Boolean).join(" \\\n  ");
}

/** What cannot be seen, or would reorder what can, is escaped: it would not survive being copied. */
function toJson(value: unknown): string {
  const text = JSON.stringify(value);
  const short = text.length > maxLetters ? "{}" : text;
  return short.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (letters) => letters.split("").map(toEscape).join(""));
}

const maxLetters = 4_000;
const toEscape = (unit: string): string => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`;
