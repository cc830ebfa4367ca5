import { sep } from "node:path";
import { watch } from "chokidar";

export interface Watch {
  /** Files and folders to watch besides; they need not exist. */
  add(paths: readonly string[]): void;
  close(): Promise<void>;
}

export interface WatchOptions {
  /** Gets what was added, changed or removed, once it has been quiet for a moment: one save may touch several files. */
  readonly onChange: (files: ReadonlySet<string>) => void;
  /** When the files were read, in milliseconds since 1970. */
  readonly readAt: () => number;
  readonly onError: (error: unknown) => void;
}

/** The clock of files is some milliseconds behind ours. */
const clockMs = 20;
const quietMs = 15;
/** A tool that never stops writing must not keep everybody from seeing what it writes. */
const longestMs = 250;

export function createWatch({ onChange, readAt, onError }: WatchOptions): Watch {
  // What is there already is told, too: it may have been saved after it was read, and before it was watched.
  const watcher = watch([], { ignoreInitial: false, ignored: isForeign });
  const changed = new Set<string>();
  let since = 0;
  let quiet: NodeJS.Timeout | undefined;

  function flush(): void {
    quiet = undefined;
    const files = new Set(changed);
    changed.clear();
    onChange(files);
  }

  watcher.on("error", onError).on("all", (event, path, stats) => {
    // `ctime`: a file that is moved here keeps its `mtime`.
    if (event === "addDir" || (event === "add" && stats && stats.ctimeMs < readAt() - clockMs)) return;
    if (changed.size === 0) since = performance.now();
    changed.add(path);
    clearTimeout(quiet);
    quiet = setTimeout(flush, Math.max(0, Math.min(quietMs, since + longestMs - performance.now())));
  });

  return {
    add: (paths) => void watcher.add([...paths]),
    async close() {
      clearTimeout(quiet);
      await watcher.close();
    },
  };
}

/** What is written all the time, or is not the project's own. */
function isForeign(path: string): boolean {
  return path.split(sep).some((part) => part === "node_modules" || part === ".git" || part === ".agentserve");
}
