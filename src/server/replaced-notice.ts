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
