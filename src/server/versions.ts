import type { Holder } from "../config/snapshot.ts";
import type { Logger } from "../core/log.ts";
import type { App } from "./app.ts";

/** The current app, and the older ones that are still in use. */
export interface Versions {
  readonly current: () => App;
  /** Makes `next` the app of all new requests. */
  swap(next: App): void;
  /** Resolves when no app is in use any more and all are disposed of. */
  close(): Promise<void>;
}

export interface VersionsOptions {
  readonly logger: Logger;
  readonly heldMs?: number | undefined;
}

export function createVersions(first: App, { logger, heldMs = 300_000 }: VersionsOptions): Versions {
  let current = first;
  const leaving = new Set<Promise<void>>();

  function leave({ snapshot }: App): void {
    const late = setTimeout(() => {
      logger.warn("An older version of the config is still in use", { by: toText(snapshot.holders()) });
    }, heldMs).unref();
    const left = snapshot.retire().finally(() => {
      clearTimeout(late);
      leaving.delete(left);
    });
    leaving.add(left);
  }

  return {
    current: () => current,
    swap(next) {
      const previous = current;
      current = next;
      leave(previous);
    },
    async close() {
      leave(current);
      await Promise.all(leaving);
    },
  };
}

const toText = (holders: ReadonlyMap<Holder, number>): string =>
  [...holders].map(([by, count]) => `${count} ${by}${count === 1 ? "" : "s"}`).join(", ");
