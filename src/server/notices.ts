import type { Logger } from "../core/log.ts";

/** Logs each route that `configureApp` replaces, once. */
export function createReplacedNotice(logger: Logger): (replaced: Iterable<string>) => void {
  const said = new Set<string>();
  return (replaced) => {
    for (const entry of replaced) {
      if (!said.has(entry)) logger.info(`configureApp replaces the built-in route ${entry}`);
      said.add(entry);
    }
  };
}

/** Max keys that are logged, and max characters of each. */
const max = 100;

/** Logs one warning per unknown key of a body. Only for the first 100 keys, because clients choose the keys. */
export function createKeyWarnings(logger: Logger): (route: string, key: string) => void {
  const warned = new Set<string>();
  return (route, key) => {
    const name = `${route} ${key.slice(0, max)}`;
    if (warned.size >= max || warned.has(name)) return;
    warned.add(name);
    logger.warn("Unknown key in a request body was ignored", { route, key: key.slice(0, max) });
  };
}
