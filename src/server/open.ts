import { setTimeout as sleep } from "node:timers/promises";
import { busy } from "../core/error.ts";
import type { OpenOptions } from "../engine/contract/engine.ts";
import type { StoreGate } from "./app.ts";
import { listen, type ListeningServer, type ListenOptions } from "./network/listen.ts";
import { freePort } from "./network/port.ts";

export interface OpenParts {
  readonly options: ListenOptions;
  readonly open: (options: OpenOptions) => Promise<void>;
  readonly store: StoreGate;
  /** True to open the port while another process still has the store. */
  readonly isEarly: boolean;
}

/**
 * Opens the store, then the port: the previous process may keep the port until it has released the store. If it still
 * has the store, but not the port, the port is opened first, and requests wait for the store: so none fails during a
 * deploy.
 */
export async function openStoreAndPort({ options, open, store, isEarly }: OpenParts): Promise<ListeningServer> {
  let early: Promise<ListeningServer | undefined> | undefined;
  const opened = new AbortController();
  const opening = open({
    async mayServe() {
      opened.abort();
      await ((await early) ?? freePort(options));
    },
    onWait() {
      if (!isEarly) return;
      store.opening = opening.catch((error: unknown) => {
        throw busy("The server is starting", 1, error);
      });
      store.opening.catch(() => {}); // there may be no request
      early = openEarly();
    },
  });
  try {
    await opening;
    return (await early) ?? (await listen(options));
  } catch (error) {
    await (await early)?.close({ drainMs: 0 });
    throw error;
  } finally {
    store.opening = undefined;
  }

  /** Tries until the port is free or the store is open. */
  async function openEarly(): Promise<ListeningServer | undefined> {
    while (!opened.signal.aborted) {
      const port = await listen(options).catch(() => undefined);
      if (port) return port;
      await sleep(retryMs);
    }
    return undefined;
  }
}

const retryMs = 100;
