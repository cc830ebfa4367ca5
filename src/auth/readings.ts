/**
 * A path as the router reads it, and as a careless handler of a wildcard route might: with `%2F` and `\` for `/`, `//` for
 * `/`, dots resolved and everything decoded. Most paths have one reading.
 */
export function readingsOf(path: string): readonly string[] {
  if (!/%|\/\/|\\|\/\./.test(path)) return [path];
  const loose = encode(resolve(decode(path).replaceAll("\\", "/")));
  return loose === path ? [path] : [path, loose];
}

/** Whoever decodes twice gets what was encoded twice. */
function decode(path: string): string {
  let decoded = path;
  for (let round = 0; round < 3 && decoded.includes("%"); round++) {
    decoded = decoded.replace(/(?:%[0-9a-f]{2})+/gi, (run) => Buffer.from(run.replaceAll("%", ""), "hex").toString());
  }
  return decoded;
}

function resolve(path: string): string {
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "..") parts.pop();
    else if (part !== "" && part !== ".") parts.push(part);
  }
  return `/${parts.join("/")}`;
}

/** As rou3 writes what stands in a pattern. */
function encode(path: string): string {
  return path.replace(/[\0- "#<>?^`{}\x7F-\uFFFF]+/g, (run) => encodeURIComponent(run.toWellFormed()));
}
