/**
 * A path as the router reads it, and as a careless handler of a wildcard route might: decoded once or more, `\` taken for
 * `/`, `//` for `/`, dots resolved. Most paths have one reading.
 */
export function readingsOf(path: string): readonly string[] {
  if (!/%|\/\/|\\|\/\./.test(path)) return [path];
  const readings = new Set([path]);
  for (let round = 0, decoded = path; round <= mostRounds; round++, decoded = decode(decoded)) {
    readings.add(encode(resolve(decoded)));
    readings.add(encode(resolve(decoded.replaceAll("\\", "/"))));
  }
  return [...readings];
}

/** Whoever decodes twice gets what was encoded twice. */
const mostRounds = 3;

function decode(path: string): string {
  return path.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
}

function resolve(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** As rou3 writes what stands in a pattern, its escapes in capitals. */
function encode(path: string): string {
  const escaped = path.replace(/[\0- "#<>?^`{}\x7F-\uFFFF]+/g, (run) => encodeURIComponent(run.toWellFormed()));
  return escaped.replace(/%[0-9a-f]{2}/gi, (escape) => escape.toUpperCase());
}
