import { attempt } from "../core/attempt.ts";

/** Endings of field names, without separators, whose values are redacted. */
const names =
  /(authorization|cookies?|passwords?|passwd|passphrase|secrets?|(?:api|access|private|secret|signing)keys?|credentials?|tokens?)$/;
const replacement = "[redacted]";

/** Returns true if the value of a field is redacted. Token counts are not. */
function isHidden(name: string, value: unknown): boolean {
  if (value === undefined || value === null || typeof value === "boolean") return false;
  const end = names.exec(name.toLowerCase().replace(/[^a-z]/g, ""))?.[1];
  return end !== undefined && !(end === "tokens" && typeof value === "number");
}

/** Names of secret headers. Headers also occur as pairs, and as a flat list of names and values. */
const headerName = /^(?:(?:proxy-)?authorization|(?:set-)?cookie|(?:x-)?api-key|x-[\w-]*token)$/i;
const hideHeaders = (list: readonly unknown[]): unknown[] =>
  list.map((value, at) => {
    const before = list[at - 1];
    return typeof value === "string" && typeof before === "string" && headerName.test(before) ? replacement : value;
  });

// Patterns of tokens and keys in a text. To limit backtracking, every repetition is bounded and no match can begin
// inside another one.
const secretName = "password|passwd|passphrase|secret|api[-_]?key|private[-_]?key|secret[-_]?key|access[-_]?key|token";
const shapes: readonly [RegExp, string | ((found: string, ...groups: string[]) => string)][] = [
  [/-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----[^-]{0,8192}/g, replacement],
  [
    /\b((?:proxy-)?authorization|(?:set-)?cookie|x-api-key)(\\{0,4}["']?\s{0,4}:\s{0,4})[^\r\n]{1,4096}/gi,
    `$1$2${replacement}`,
  ],
  [/\b([a-z][a-z\d+.-]{1,20}:\/\/[^\s:/@"']{0,256}:)[^\s@/"']{1,1024}@/gi, `$1${replacement}@`],
  [new RegExp(String.raw`(?<![\w-])([\w-]{0,64}(?:${secretName})=)[^\s&"'\\<>#;,]{1,4096}`, "gi"), `$1${replacement}`],
  [/([?&#](?:key|sig|signature)=)[^\s&"'\\<>#]{1,4096}/gi, `$1${replacement}`],
  [
    new RegExp(
      String.raw`(?<![\w-])([\w-]{0,64}(?:${secretName})s?\\{0,8}["']?\s{0,4}:\s{0,4}\\{0,8}["'])(?:\\.|[^"'\\]){1,4096}`,
      "gi",
    ),
    `$1${replacement}`,
  ],
  [/Bearer\s{1,8}[\w.~+/=-]{8,4096}/gi, replacement],
  [/\bBasic\s{1,8}([\w+/]{8,2048}={0,2})/gi, (found, sent = "") => (atob(sent).includes(":") ? replacement : found)],
  [/(?<![\w-])eyJ[\w-]{4,4096}\.[\w-]{2,4096}\.[\w-]{0,4096}/g, replacement],
  [/(?<![\w-])(?:[spr]k[-_]|gsk_|hf_|gh[opsu]_|github_pat_|xox[abprs]-|AIza)[\w-]{16,512}/g, replacement],
];
const atob = (text: string): string => Buffer.from(text, "base64").toString();

/** Removes tokens, keys and secrets, by their names, their shapes and the values in the environment. */
export interface Redactor {
  text(text: string): string;
  /** Returns the redacted value of a field, as a replacer for `JSON.stringify`. */
  value(name: string, value: unknown): unknown;
}

export function createRedactor(environment: Readonly<Record<string, string | undefined>>): Redactor {
  const secrets = Object.entries(environment)
    .filter(([name, secret = ""]) => /(KEY|TOKEN|SECRET|PASSWORD)S?$/i.test(name) && secret.length >= 8)
    .flatMap(([, secret = ""]) => [secret, JSON.stringify(secret).slice(1, -1)])
    // Longest first: one secret may be the beginning of another.
    .toSorted((a, b) => b.length - a.length)
    .map((secret) => secret.replace(/\W/g, String.raw`\$&`));
  const held = secrets.length > 0 ? new RegExp(secrets.join("|"), "g") : undefined;
  const hold = (given: string): string => (held ? given.replace(held, replacement) : given);

  function text(given: string): string {
    if (given.length < 8) return given;
    const json = redactJson(given);
    if (json !== undefined) return json;
    let rest = hold(given);
    for (const [shape, by] of shapes) rest = rest.replace(shape, by as string);
    return rest;
  }

  function value(name: string, given: unknown): unknown {
    if (isHidden(name, given)) return replacement;
    if (typeof given === "string") return text(given);
    if (Array.isArray(given)) return hideHeaders(given);
    if (!held || typeof given !== "object" || given === null) return given;
    if (Object.keys(given).every((key) => hold(key) === key)) return given;
    return Object.fromEntries(Object.entries(given).map(([key, inner]) => [hold(key), inner as unknown]));
  }

  /** Redacts a text that is JSON. Returns undefined for any other text. */
  function redactJson(given: string): string | undefined {
    if (!/^\s{0,8}[[{]/.test(given)) return undefined;
    return attempt(() => JSON.stringify(JSON.parse(given), value));
  }

  return { text, value };
}
