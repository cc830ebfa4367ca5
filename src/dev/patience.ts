import { ConfigError } from "../config/error.ts";
import { dispose, type Loader, type Project } from "../config/load.ts";

/** A load was given up for the next one. */
export class SupersededLoad extends Error {}

export interface PatientLoad {
  readonly loaded: Promise<Project>;
  /** There is something newer to load. One that takes its time is given up for that. */
  hurry(): void;
}

export interface Patience {
  readonly loadMs: number;
  readonly onSlow: () => void;
}

const slowMs = 1_000;

/**
 * A module can wait for ever, at its top. The next save is to be seen all the same. Should what was given up go on after
 * all, it may import modules of the next load; its config is disposed of, and never served.
 */
export function loadPatiently(loader: Loader, { loadMs, onSlow }: Patience): PatientLoad {
  const { promise: end, reject } = Promise.withResolvers<never>();
  const loading = loader.load();
  let isSlow = false;
  let isHurried = false;
  const slow = setTimeout(() => {
    isSlow = true;
    if (isHurried) reject(new SupersededLoad());
    else onSlow();
  }, slowMs);
  const late = setTimeout(() => {
    const hint = "look for an await at the top of a file";
    reject(new ConfigError(`The project was not loaded within ${loadMs / 1_000} s`, { hint }));
  }, loadMs);
  end.catch(() => loading.then(({ config }) => dispose(config)).catch(() => {})); // should it come after all
  const loaded = Promise.race([loading, end]).finally(() => {
    clearTimeout(slow);
    clearTimeout(late);
  });
  return {
    loaded,
    hurry() {
      isHurried = true;
      if (isSlow) reject(new SupersededLoad());
    },
  };
}
