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
import { createWatch, type Watch } from "./watch.ts";

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
export class Reload {
  readonly #options: ReloadOptions;
  readonly #root: string;
  /** The config and the `.env` files. */
  readonly #fixed: readonly string[];
  readonly #watch: Watch;
  readonly #following: NodeJS.Timeout;
  readonly #watched = new Set<string>();
  /** The versions of changed files that a load has read. A save is one reload, however often and late it is reported. */
  readonly #loaded = new Map<string, string | undefined>();
  /** The removed files that were reported. */
  readonly #gone = new Set<string>();
  readonly #pending = new Set<string>();
  #served: Project;
  /** Imported files that do not exist. They may be created later. */
  #missing: readonly string[] = [];
  /** All files read since the last good load began. Node and jiti forget some files of a load that throws. */
  #known = new Set<string>();
  /** The keys of the last `restartNeeded`. */
  #reported = "";
  /** The problem of the last load, if it failed. */
  #problem: Problem | undefined;
  #working: Promise<void> | undefined;
  #load: PatientLoad | undefined;
  #isClosed = false;

  constructor(options: ReloadOptions) {
    const { loader, server } = options;
    this.#options = options;
    this.#root = dirname(loader.file);
    this.#fixed = [loader.file, ...envFiles.map((name) => join(this.#root, name))];
    this.#served = options.project;
    this.#watch = createWatch({
      root: this.#root,
      onChange: (files) => this.#onChange(files),
      readAt: loader.beganAt,
      isNew: (file) => this.#missing.includes(file) || (this.#isInFolder(file) && !this.#isRead(file)),
      onError: (error) => server.logger.error("Watching files failed", { error }),
    });
    this.#follow();
    this.#following = setInterval(() => {
      this.#follow(); // a request or a step may import a file for the first time
      const created = this.#missing.filter((file) => existsSync(file));
      if (!this.#working) this.#onChange([...created, ...this.#findUnreported()]);
    }, followMs).unref();
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearInterval(this.#following);
    await this.#watch.close();
  }

  /**
   * Returns late changes: files written or removed after they were read, which the watcher should have reported by now. It can
   * miss a write, and the removal of a newly watched file.
   */
  #findUnreported(): string[] {
    const { loader } = this.#options;
    const readAt = loader.beganAt();
    const late = Date.now() - followMs;
    const removed = loader.files().filter((file) => !this.#gone.has(file) && !existsSync(file));
    const written = [...this.#fixed, ...this.#known].filter((file) => {
      const writtenAt = attempt(() => statSync(file).mtimeMs) ?? 0;
      return writtenAt > readAt && writtenAt < late;
    });
    return [...removed, ...written];
  }

  #onChange(files: Iterable<string>): void {
    for (const file of files) {
      if (existsSync(file)) this.#gone.delete(file);
      else {
        this.#gone.add(file);
        this.#watched.delete(file); // watched again if it comes back
      }
      if (this.#isOurs(file) && toVersion(file) !== this.#loaded.get(file)) this.#pending.add(file);
    }
    if (this.#pending.size === 0 || this.#isClosed) return;
    this.#load?.hurry();
    this.#working ??= this.#work().finally(() => (this.#working = undefined));
  }

  /** Watches the files that are not watched yet. */
  #follow(): void {
    const { loader } = this.#options;
    for (const file of loader.files()) this.#known.add(file);
    const all = [...this.#fixed, ...loader.folders(), ...this.#known, ...this.#missing];
    const paths = all.filter((path) => !this.#watched.has(path));
    for (const path of paths) this.#watched.add(path);
    if (paths.length > 0) this.#watch.add(paths);
  }

  #isOurs(file: string): boolean {
    const isNamed = this.#fixed.includes(file) || this.#missing.includes(file) || this.#known.has(file);
    return isNamed || this.#isRead(file) || this.#isInFolder(file);
  }

  #isInFolder(file: string): boolean {
    const folders = this.#options.loader.folders();
    return folders.some((folder) => file.startsWith(folder + sep) && isModule(file.slice(folder.length)));
  }

  #isRead(file: string): boolean {
    return this.#options.loader.files().includes(toReal(file));
  }

  /** Loads one version after the other. Files that are saved during a load cause the next one. */
  async #work(): Promise<void> {
    while (this.#pending.size > 0) {
      if (this.#isClosed) return;
      const files = [...this.#pending];
      this.#pending.clear();
      await this.#reload(files);
    }
  }

  async #reload(files: readonly string[]): Promise<void> {
    const { loader, report, server, loadMs = 30_000 } = this.#options;
    const began = performance.now();
    for (const file of files) this.#loaded.set(file, toVersion(file, { before: Date.now() }));
    try {
      this.#load = loadPatiently(loader, { loadMs, onSlow: report.loading });
      const next = await this.#load.loaded;
      const keys = this.#swap(next);
      const change = describeChange({ before: this.#served, after: next, files, config: loader.file });
      this.#served = next;
      this.#missing = [];
      this.#known = new Set();
      this.#problem = undefined;
      server.complain(undefined);
      report.reloaded(change, performance.now() - began, next);
      if (keys.join() !== this.#reported && keys.length > 0) report.restartNeeded(keys);
      this.#reported = keys.join();
    } catch (error) {
      if (error instanceof SupersededLoad) for (const file of files) this.#pending.add(file);
      else this.#refuse(withPlace(error, loader.file, this.#root));
    }
    this.#load = undefined;
    this.#follow();
  }

  #swap(next: Project): readonly string[] {
    try {
      const keys = this.#options.needsRestart(next);
      this.#options.server.swap(next);
      return keys;
    } catch (error) {
      void dispose(next.config);
      throw error;
    }
  }

  #refuse(mistake: ConfigError): void {
    const { server, showsCode, report } = this.#options;
    const { message, hint, place } = mistake;
    const problem = { message, hint, frame: place && toFrame(place), since: new Date().toISOString() };
    this.#missing = missingFiles(mistake).filter((file) => !existsSync(file));
    server.complain(showsCode ? problem : { ...problem, frame: undefined });
    if (isSame(problem, this.#problem)) report.refusedAgain();
    else report.refused(problem);
    this.#problem = problem;
  }
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
