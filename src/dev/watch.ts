import { statSync } from "node:fs";
import { sep } from "node:path";
import { watch } from "chokidar";
import { below } from "../config/own-file.ts";

export interface Watch {
  /** Watches more files and folders. They need not exist. */
  add(paths: readonly string[]): void;
  close(): Promise<void>;
}

export interface WatchOptions {
  /** The folder of the project. */
  readonly root: string;
  /** Called with the added, changed and removed files after a quiet moment: one save may touch several files. */
  readonly onChange: (files: ReadonlySet<string>) => void;
  /** The time at which the files were read, in milliseconds since 1970. */
  readonly readAt: () => number;
  /** Returns true if a file did not exist at that time. It may be older: folders are moved, links are made. */
  readonly isNew: (file: string) => boolean;
  readonly onError: (error: unknown) => void;
}

/** File timestamps are some milliseconds behind our clock. */
const clockMs = 20;
const quietMs = 15;
/** The longest wait for a quiet moment: a tool that writes all the time must not delay a reload for ever. */
const longestMs = 250;
/** The time from chokidar's first look at a file until it reliably reports changes. */
const blindMs = 250;

export function createWatch({ root, onChange, readAt, isNew, onError }: WatchOptions): Watch {
  // Existing files are reported as well: they may have been saved after they were read and before they were watched.
  const watcher = watch([], { ignoreInitial: false, ignored: (path) => isForeign(below(path, root)) });
  const changed = new Set<string>();
  /** The change times of newly found files. They may change again before chokidar reports it. */
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
    const ms = isEmpty(path) ? longestMs : quietMs;
    quiet = setTimeout(flush, Math.max(0, Math.min(ms, since + longestMs - performance.now())));
  }

  function checkAgain(): void {
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
    second ??= setTimeout(checkAgain, blindMs).unref();
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

/** Returns true for a file without content: a save in place empties it first, and its text may come later. */
const isEmpty = (path: string): boolean => statSync(path, { throwIfNoEntry: false })?.size === 0;

/** Returns true for files that are written all the time, or do not belong to the project. */
function isForeign(path: string): boolean {
  return path.split(sep).some((part) => part === "node_modules" || part === ".git" || part === ".agentserve");
}
