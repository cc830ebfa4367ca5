import { existsSync } from "node:fs";
import { dirname, join, sep } from "node:path";
import { envFiles } from "../config/env.ts";
import { ConfigError } from "../config/error.ts";
import { maskTexts, toFrame } from "../config/frame.ts";
import { missingFolder, withPlace } from "../config/load-error.ts";
import { dispose, isModule, type Loader, type Project } from "../config/load.ts";
import type { Problem } from "../docs/problem.ts";
import type { OpenServer } from "../server/create.ts";
import { describeChange } from "./change.ts";
import { createWatch } from "./watch.ts";

export interface ReloadOptions {
  readonly loader: Loader;
  readonly server: Pick<OpenServer, "swap" | "complain" | "logger">;
  /** What is served now. */
  readonly project: Project;
  /** What of a new version is only read at the start: `backend`, `port` … */
  readonly needsRestart: (next: Project) => readonly string[];
  readonly say: {
    served(change: string, ms: number): void;
    restart(keys: readonly string[]): void;
    failed(problem: Problem): void;
  };
  /** @default 30 s */
  readonly loadMs?: number;
}

const followMs = 500;

/** Watches a project and serves each version of it that can be loaded. What cannot be is said; the last good one stays. */
export function createReload({ loader, server, say, ...options }: ReloadOptions): { close(): Promise<void> } {
  const { needsRestart, loadMs = 30_000 } = options;
  const root = dirname(loader.file);
  let served = options.project;
  let isBroken = false;
  let told = "";
  const pending = new Set<string>();
  let working: Promise<void> | undefined;
  let closed = false;

  const watch = createWatch({
    root,
    onChange(files) {
      for (const file of files) {
        if (!existsSync(file)) watched.delete(file); // to be looked for again
        if (isBroken || isOurs(file)) pending.add(file);
      }
      if (pending.size > 0 && !closed) working ??= work().finally(() => (working = undefined));
    },
    readAt: loader.beganAt,
    onError: (error) => server.logger.error("Watching files failed", { error }),
  });
  const fixed = [loader.file, ...envFiles.map((name) => join(root, name))];
  const watched = new Set<string>();
  follow(fixed);

  // A request or a step may import a file that nobody has loaded before.
  const following = setInterval(() => follow(fixed), followMs).unref();

  function follow(more: readonly string[] = []): void {
    const paths = [...more, ...loader.folders(), ...loader.files()].filter((path) => !watched.has(path));
    for (const path of paths) watched.add(path);
    if (paths.length > 0) watch.add(paths);
  }

  function isOurs(file: string): boolean {
    if (fixed.includes(file) || loader.files().includes(file)) return true;
    return loader.folders().some((folder) => file.startsWith(folder + sep) && isModule(file.slice(folder.length)));
  }

  /** One version after the other; what was saved meanwhile makes the next one. */
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
    try {
      const next = await within(loader.load(), loadMs);
      try {
        server.swap(next);
      } catch (error) {
        void dispose(next.config);
        throw error;
      }
      const change = describeChange({ before: served, after: next, files, config: loader.file });
      served = next;
      isBroken = false;
      server.complain(undefined);
      say.served(change, performance.now() - began);
      const keys = needsRestart(next);
      if (keys.join() !== told && keys.length > 0) say.restart(keys);
      told = keys.join();
    } catch (error) {
      isBroken = true;
      const mistake = withPlace(error, loader.file, root);
      const problem = toProblem(mistake);
      server.complain({ ...problem, frame: problem.frame && maskTexts(problem.frame) });
      say.failed(problem);
      const folder = missingFolder(mistake);
      if (folder !== undefined) follow([folder]);
    }
    follow();
  }

  return {
    async close() {
      closed = true;
      clearInterval(following);
      await watch.close();
    },
  };
}

function toProblem({ message, hint, place }: ConfigError): Problem {
  return { message, hint, frame: place && toFrame(place), since: new Date().toISOString() };
}

/** Modules can wait for ever, at their top. The next save is to be seen all the same. */
async function within(loading: Promise<Project>, ms: number): Promise<Project> {
  const { promise, reject } = Promise.withResolvers<never>();
  const late = setTimeout(() => {
    reject(
      new ConfigError(`The project was not loaded within ${ms / 1_000} s`, {
        hint: "look for an await at the top of a file",
      }),
    );
  }, ms);
  try {
    return await Promise.race([loading, promise]);
  } catch (error) {
    loading.then(({ config }) => dispose(config)).catch(() => {}); // should it come after all
    throw error;
  } finally {
    clearTimeout(late);
  }
}
