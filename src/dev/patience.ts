import { ConfigError } from "../config/error.ts";
import { dispose, type Loader, type Project } from "../config/load.ts";

/** The error of a load that was abandoned for a newer one. */
export class SupersededLoad extends Error {}

export interface PatientLoad {
  readonly loaded: Promise<Project>;
  /** Reports that there is a newer version to load. A load that is slow is abandoned for it. */
  hurry(): void;
}

export interface Patience {
  readonly loadMs: number;
  readonly onSlow: () => void;
}

const slowMs = 1_000;

/**
 * Loads a project with a time limit. A top-level await may never resolve, and the next save must be loaded anyway. An
 * abandoned load may continue later and import modules of the next load. Its config is disposed of, never served.
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
    const hint = "look for a top-level await that never resolves";
    reject(new ConfigError(`Loading the project timed out after ${loadMs / 1_000} s`, { hint }));
  }, loadMs);
  end.catch(() => loading.then(({ config }) => dispose(config)).catch(() => {})); // if it completes after all
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
