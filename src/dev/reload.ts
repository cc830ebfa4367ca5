import { existsSync, realpathSync, statSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { envFiles } from "../config/env.ts";
import type { ConfigError } from "../config/error.ts";
import { toFrame } from "../config/frame.ts";
import { missingFiles, withPlace } from "../config/load-error.ts";
import { dispose, isModule, type Loader, type Project } from "../config/load.ts";
import { attempt } from "../core/attempt.ts";
import type { Problem } from "../pages/problem.ts";
import type { OpenServer } from "../server/create.ts";
import { describeChange } from "./change.ts";
import { SupersededLoad, loadPatiently, type PatientLoad } from "./patience.ts";
import { createWatch } from "./watch.ts";

export interface ReloadOptions {
  readonly loader: Loader;
  readonly server: Pick<OpenServer, "swap" | "complain" | "logger">;
  /** The version that is served now. */
  readonly project: Project;
  /** Returns the changed keys that are read only at the start: `backend`, `port` … Throws if the version is invalid. */
  readonly needsRestart: (next: Project) => readonly string[];
  /** True to show code on the landing page. Only if no other machine can reach it. */
  readonly showsCode: boolean;
  readonly report: {
    loading(): void;
    reloaded(change: string, ms: number, project: Project): void;
    restartNeeded(keys: readonly string[]): void;
    refused(problem: Problem): void;
    /** The next version has the same problem: an editor may write a file in several steps. */
    refusedAgain(): void;
  };
  /** The time limit of a load. @default 30000 */
  readonly loadMs?: number;
}

const followMs = 500;

/** Watches a project and serves each version that loads. If one fails, reports it and keeps the last good version. */
export function createReload({ loader, server, report, ...options }: ReloadOptions): { close(): Promise<void> } {
  const { needsRestart, showsCode, loadMs = 30_000 } = options;
  const root = dirname(loader.file);
  const fixed = [loader.file, ...envFiles.map((name) => join(root, name))];
  let served = options.project;
  /** Imported files that do not exist. They may be created later. */
  let missing: readonly string[] = [];
  /** All files read since the last good load began. Node and jiti forget some files of a load that throws. */
  let known = new Set<string>();
  let told = "";
  /** The problem of the last load, if it failed. */
  let standing: Problem | undefined;
  const watched = new Set<string>();
  /** The versions of changed files that a load has read. A save is one reload, however often and late it is reported. */
  const loaded = new Map<string, string | undefined>();
  /** The removed files that were reported. */
  const gone = new Set<string>();
  const pending = new Set<string>();
  let working: Promise<void> | undefined;
  let load: PatientLoad | undefined;
  let closed = false;

  const watch = createWatch({
    root,
    onChange,
    readAt: loader.beganAt,
    isNew: (file) => missing.includes(file) || (isInFolder(file) && !loader.files().includes(toReal(file))),
    onError: (error) => server.logger.error("Watching files failed", { error }),
  });
  follow();
  const following = setInterval(() => {
    follow(); // a request or a step may import a file for the first time
    if (!working) onChange([...missing.filter((file) => existsSync(file)), ...unreported()]);
  }, followMs).unref();

  /**
   * The files that were written or removed after they were read, if the watcher should have reported that by now: it can miss
   * a write, and the removal of a file that it has just begun to watch.
   */
  function unreported(): string[] {
    const readAt = loader.beganAt();
    const late = Date.now() - followMs;
    const removed = loader.files().filter((file) => !gone.has(file) && !existsSync(file));
    const written = [...fixed, ...known].filter((file) => {
      const writtenAt = attempt(() => statSync(file).mtimeMs) ?? 0;
      return writtenAt > readAt && writtenAt < late;
    });
    return [...removed, ...written];
  }

  function onChange(files: Iterable<string>): void {
    for (const file of files) {
      if (existsSync(file)) gone.delete(file);
      else {
        gone.add(file);
        watched.delete(file); // watched again if it comes back
      }
      if (isOurs(file) && toVersion(file) !== loaded.get(file)) pending.add(file);
    }
    if (pending.size === 0 || closed) return;
    load?.hurry();
    working ??= work().finally(() => (working = undefined));
  }

  function follow(): void {
    for (const file of loader.files()) known.add(file);
    const all = [...fixed, ...loader.folders(), ...known, ...missing];
    const paths = all.filter((path) => !watched.has(path));
    for (const path of paths) watched.add(path);
    if (paths.length > 0) watch.add(paths);
  }

  const isOurs = (file: string): boolean =>
    fixed.includes(file) || missing.includes(file) || isLoaded(file) || isInFolder(file);
  const isInFolder = (file: string): boolean =>
    loader.folders().some((folder) => file.startsWith(folder + sep) && isModule(file.slice(folder.length)));
  const isLoaded = (file: string): boolean => known.has(file) || loader.files().includes(toReal(file));

  /** Loads one version after the other. Files that are saved during a load cause the next one. */
  async function work(): Promise<void> {
    while (pending.size > 0) {
      if (closed) return;
      const files = [...pending];
      pending.clear();
      await reload(files);
    }
  }

  async function reload(files: readonly string[]): Promise<void> {
    const began = performance.now();
    for (const file of files) loaded.set(file, toVersion(file, { before: Date.now() }));
    try {
      load = loadPatiently(loader, { loadMs, onSlow: report.loading });
      const next = await load.loaded;
      const keys = swap(next);
      const change = describeChange({ before: served, after: next, files, config: loader.file });
      served = next;
      missing = [];
      known = new Set();
      standing = undefined;
      server.complain(undefined);
      report.reloaded(change, performance.now() - began, next);
      if (keys.join() !== told && keys.length > 0) report.restartNeeded(keys);
      told = keys.join();
    } catch (error) {
      if (error instanceof SupersededLoad) for (const file of files) pending.add(file);
      else refuse(withPlace(error, loader.file, root));
    }
    load = undefined;
    follow();
  }

  function swap(next: Project): readonly string[] {
    try {
      const keys = needsRestart(next);
      server.swap(next);
      return keys;
    } catch (error) {
      void dispose(next.config);
      throw error;
    }
  }

  function refuse(mistake: ConfigError): void {
    const { message, hint, place } = mistake;
    const problem = { message, hint, frame: place && toFrame(place), since: new Date().toISOString() };
    missing = missingFiles(mistake).filter((file) => !existsSync(file));
    server.complain(showsCode ? problem : { ...problem, frame: undefined });
    if (isSame(problem, standing)) report.refusedAgain();
    else report.refused(problem);
    standing = problem;
  }

  return {
    async close() {
      closed = true;
      clearInterval(following);
      await watch.close();
    },
  };
}

const isSame = (one: Problem, other: Problem | undefined): boolean =>
  one.message === other?.message && one.hint === other.hint && one.frame === other.frame;

/**
 * Identifies the content of a file without reading it. Undefined if the file changed too shortly before the given time: the
 * next write may have the same timestamp.
 */
function toVersion(file: string, { before = Infinity }: { before?: number } = {}): string | undefined {
  const stats = attempt(() => statSync(file));
  if (!stats) return "removed";
  const { ino, size, ctimeMs } = stats;
  const tickMs = ctimeMs % 1_000 === 0 ? 2_000 : 12; // some file systems store whole seconds
  return Math.abs(before - ctimeMs) > tickMs ? `${ino} ${size} ${ctimeMs}` : undefined;
}

/** Resolves a symbolic link. Returns the path itself if the file does not exist. */
const toReal = (file: string): string => attempt(() => realpathSync(file)) ?? file;
