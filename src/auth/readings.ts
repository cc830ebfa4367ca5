/**
 * A path as the router reads it, and as a careless handler of a wildcard route might: decoded once or more, `\\` taken for
 * `/`, `//` for `/`, dots resolved, cut at what would be a query in a URL. Most paths have one reading.
 */
export function readingsOf(path: string): readonly string[] {
  if (!/%|\/\/|\\|\/\./.test(path)) return [path];
  const readings = new Set([path]);
  for (let round = 0, decoded = path; round <= mostRounds; round++, decoded = decode(decoded)) {
    // As it is; as the path of a URL, which has no tabs and lines, and ends before `?` and `#`.
    for (const text of [decoded, toUrlPath(decoded)]) {
      for (const slashed of [text, text.replaceAll("\\", "/")]) {
        readings.add(encode(resolve(slashed, false)));
        readings.add(encode(resolve(slashed, true)));
      }
    }
  }
  return [...readings];
}

function toUrlPath(text: string): string {
  const [path = ""] = text.replace(/[\t\n\r]/g, "").split(/[?#]/, 1);
  let end = path.length;
  while (end > 0 && path.charCodeAt(end - 1) <= 0x20) end--;
  return path.slice(0, end);
}

/** Whoever decodes twice gets what was encoded twice. */
const mostRounds = 3;

function decode(path: string): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
}

/** For a URL an empty part is one that `..` leaves; for a file system it is none. */
function resolve(path: string, keepsEmpty: boolean): string {
  const parts: string[] = [];
  for (const part of path.split("/").slice(1)) {
    if (part === "..") parts.pop();
    else if (part !== "." && (keepsEmpty || part !== "")) parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** As rou3 writes what stands in a pattern, its escapes in capitals. */
function encode(path: string): string {
  const escaped = path.replace(/[\0- "#<>?^`{}\x7F-\uFFFF]+/g, (run) => encodeURIComponent(run.toWellFormed()));
  return escaped.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
}
