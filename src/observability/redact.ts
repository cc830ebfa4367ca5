/** The ends of names, without their separators, of what must not be read. */
const names =
  /(authorization|cookies?|passwords?|passwd|passphrase|secrets?|apikeys?|accesskeys?|privatekeys?|credentials?|tokens?)$/;
const replacement = "[redacted]";

/** Whether the value of a field is left out. Counts of tokens are no tokens. */
export function isHidden(name: string, value: unknown): boolean {
  if (value === undefined || value === null || typeof value === "boolean") return false;
  const end = names.exec(name.toLowerCase().replace(/[^a-z]/g, ""))?.[1];
  return end !== undefined && !(end === "tokens" && typeof value === "number");
}

// What looks like a token or a key in a text. Each repetition has a bound, and none can begin inside of another.
const bearer = /\bBearer\s{1,8}[\w.~+/=-]{8,4096}/gi;
const basic = /\bBasic\s{1,8}[\w+/]{6,2048}={1,2}/gi;
const jwt = /(?<![\w-])eyJ[\w-]{4,4096}\.[\w-]{2,4096}\.[\w-]{0,4096}/g;
const key = /(?<![\w-])(?:[spr]k[-_]|gh[opsu]_|github_pat_|xox[abprs]-|AIza)[\w-]{16,512}/g;
const header =
  /\b((?:proxy-)?authorization|cookie)(\\{0,4}["']?\s{0,4}[:=]\s{0,4}\\{0,4}["']?)[^\s"'\\]{1,4096}(?:\s[\w.~+/=-]{8,4096})?/gi;
const query = /([?&](?:token|api_?key|key|access_token|secret)=)[^&\s"'\\<>#]{1,4096}/gi;
const field =
  /(\\{0,8}"[\w-]{0,64}(?:password|passwd|passphrase|secret|api[-_]?key|private[-_]?key|token)s?\\{0,8}"\s{0,4}:\s{0,4}\\{0,8}")[^"\\]{1,4096}/gi;

/** Takes tokens, keys and secrets out of a text: those that look like one, and those that the environment holds. */
export function createRedact(environment: Readonly<Record<string, string | undefined>>): (text: string) => string {
  const known = Object.entries(environment)
    .filter(([name, value = ""]) => /(KEY|TOKEN|SECRET|PASSWORD)S?$/i.test(name) && value.length >= 8)
    .map(([, value]) => value!.replace(/\W/g, String.raw`\$&`));
  const held = known.length > 0 ? new RegExp(known.join("|"), "g") : undefined;
  return (text) => {
    if (text.length < 8) return text;
    const rest = held ? text.replace(held, replacement) : text;
    return rest
      .replace(header, `$1$2${replacement}`)
      .replace(field, `$1${replacement}`)
      .replace(query, `$1${replacement}`)
      .replace(bearer, replacement)
      .replace(basic, replacement)
      .replace(jwt, replacement)
      .replace(key, replacement);
  };
}
