/**
 * Returns every way to read a path: as the router does, and as a careless handler of a wildcard route might. Such a
 * handler may decode it several times, treat `\\` and `//` as `/`, resolve dots, or cut it before a `?` or `#`. Most
 * paths have one reading.
 */
export function readingsOf(path: string): readonly string[] {
  if (!/%|\/\/|\\|\/\./.test(path)) return [path];
  // A set at each stage: most stages change nothing, and each text costs time in all later ones.
  const decodedPaths = new Set<string>();
  for (let round = 0, decoded = path; round <= maxRounds; round++, decoded = decode(decoded)) {
    decodedPaths.add(decoded);
    // As the path of a URL: without tabs and line breaks, and cut before `?` and `#`.
    decodedPaths.add(toUrlPath(decoded));
  }
  const slashed = new Set([...decodedPaths].flatMap((text) => [text, text.replaceAll("\\", "/")]));
  const resolved = new Set([...slashed].flatMap((text) => [resolve(text, false), resolve(text, true)]));
  return [...new Set([path, ...[...resolved].map(encode)])];
}

function toUrlPath(text: string): string {
  const [path = ""] = text.replace(/[\t\n\r]/g, "").split(/[?#]/, 1);
  let end = path.length;
  while (end > 0 && path.charCodeAt(end - 1) <= 0x20) end--;
  return path.slice(0, end);
}

/** Max rounds of decoding. A handler that decodes twice reads what was encoded twice. */
const maxRounds = 3;

function decode(path: string): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
}

/** Resolves dots. In a URL, `..` removes an empty segment. In a file system, empty segments do not exist. */
function resolve(path: string, keepsEmpty: boolean): string {
  const parts: string[] = [];
  for (const part of path.split("/").slice(1)) {
    if (part === "..") parts.pop();
    else if (part !== "." && (keepsEmpty || part !== "")) parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** Encodes a path as rou3 encodes a pattern, with uppercase escapes. */
function encode(path: string): string {
  const escaped = path.replace(/[\0- "#<>?^`{}\x7F-\uFFFF]+/g, (run) => encodeURIComponent(run.toWellFormed()));
  return escaped.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
}
