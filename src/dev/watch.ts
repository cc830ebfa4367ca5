import { statSync } from "node:fs";
import { sep } from "node:path";
import { watch } from "chokidar";
import { below } from "../config/own-file.ts";

export interface Watch {
  /** Files and folders to watch besides; they need not exist. */
  add(paths: readonly string[]): void;
  close(): Promise<void>;
}

export interface WatchOptions {
  /** The folder of the project. */
  readonly root: string;
  /** Gets what was added, changed or removed, once it has been quiet for a moment: one save may touch several files. */
  readonly onChange: (files: ReadonlySet<string>) => void;
  /** When the files were read, in milliseconds since 1970. */
  readonly readAt: () => number;
  /** Whether a file was not there when they were read, however old it is: folders are moved, links are made. */
  readonly isNew: (file: string) => boolean;
  readonly onError: (error: unknown) => void;
}

/** The clock of files is some milliseconds behind ours. */
const clockMs = 20;
const quietMs = 15;
/** A tool that never stops writing must not keep everybody from seeing what it writes. */
const longestMs = 250;
/** From when chokidar looks at a file until it surely hears of its changes. */
const blindMs = 250;

export function createWatch({ root, onChange, readAt, isNew, onError }: WatchOptions): Watch {
  // What is there already is told, too: it may have been saved after it was read, and before it was watched.
  const watcher = watch([], { ignoreInitial: false, ignored: (path) => isForeign(below(path, root)) });
  const changed = new Set<string>();
  /** When files that have just been found were changed: they may be again before anybody hears of it. */
  const found = new Map<string, number>();
  let since = 0;
  let quiet: NodeJS.Timeout | undefined;
  let second: NodeJS.Timeout | undefined;

  function flush(): void {
    quiet = undefined;
    const files = new Set(changed);
    changed.clear();
    onChange(files);
  }

  function change(path: string): void {
    if (changed.size === 0) since = performance.now();
    changed.add(path);
    found.delete(path);
    clearTimeout(quiet);
    quiet = setTimeout(flush, Math.max(0, Math.min(quietMs, since + longestMs - performance.now())));
  }

  function lookAgain(): void {
    second = undefined;
    for (const [path, changedAt] of found) {
      if (statSync(path, { throwIfNoEntry: false })?.ctimeMs !== changedAt) change(path);
    }
    found.clear();
  }

  watcher.on("error", onError).on("all", (event, path, stats) => {
    if (event === "addDir") return;
    // `ctime`: a file that is moved here keeps its `mtime`.
    const isOld = event === "add" && stats !== undefined && stats.ctimeMs < readAt() - clockMs;
    if (!isOld || isNew(path)) return change(path);
    found.set(path, stats.ctimeMs);
    second ??= setTimeout(lookAgain, blindMs).unref();
  });

  return {
    add: (paths) => void watcher.add([...paths]),
    async close() {
      clearTimeout(quiet);
      clearTimeout(second);
      await watcher.close();
    },
  };
}

/** What is written all the time, or is not the project's own. */
function isForeign(path: string): boolean {
  return path.split(sep).some((part) => part === "node_modules" || part === ".git" || part === ".agentserve");
}
