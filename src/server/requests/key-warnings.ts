import type { Logger } from "../../core/log.ts";

const max = 100;

/** Logs one warning per unknown key of a body. Only for the first 100 keys, because clients choose the keys. */
export function createKeyWarnings(logger: Logger): (route: string, key: string) => void {
  const warned = new Set<string>();
  return (route, key) => {
    const name = `${route} ${key.slice(0, 100)}`;
    if (warned.size >= max || warned.has(name)) return;
    warned.add(name);
    logger.warn("Unknown key in a request body was ignored", { route, key: key.slice(0, 100) });
  };
}
