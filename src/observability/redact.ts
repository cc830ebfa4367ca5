/** Names of what must not be read. */
const names =
  "authorization|cookie|set-cookie|password|passwd|secret|api[-_]?key|access[-_]?token|refresh[-_]?token|token";
/** A field of such a name, in JSON; its value is a text, or a list of texts. */
const fields = String.raw`"[\w-]*(?:${names})"\s*:\s*(?:"(?:[^"\\]|\\.)*"|\[[^\]{]*\])`;
/** What looks like a token or a key wherever it stands. */
const shapes = [
  String.raw`\bBearer\s+[\w.~+/=-]{8,}`,
  String.raw`\bBasic\s+[\w+/]{6,}={1,2}`,
  String.raw`\bauthorization:\s*\S+(?:\s+[\w.~+/=-]+)?`,
  String.raw`\beyJ[\w-]{4,}\.[\w-]+\.[\w-]*`,
  String.raw`\b(?:sk|pk|rk|ghp|gho|xox[abp]|AIza)[-_]?[\w-]{16,}`,
  String.raw`[?&](?:token|api_?key|key|access_token)=[^&\s"]+`,
];

/** Takes tokens, keys and secrets out of a record's JSON: those that look like one, and those that the environment holds. */
export function createRedact(environment: Readonly<Record<string, string | undefined>>): (text: string) => string {
  const known = Object.entries(environment)
    .filter(([name, value = ""]) => /(KEY|TOKEN|SECRET|PASSWORD)S?$/i.test(name) && value.length >= 8)
    // As they stand in JSON.
    .map(([, value]) =>
      JSON.stringify(value)
        .slice(1, -1)
        .replace(/\W/g, String.raw`\$&`),
    );
  const pattern = new RegExp([`(${fields})`, ...shapes, ...known].join("|"), "gi");
  return (text) =>
    text.replace(pattern, (found, field: string | undefined) =>
      field === undefined ? "[redacted]" : `${found.slice(0, found.indexOf('"', 1) + 1)}:"[redacted]"`,
    );
}
