import { existsSync, statSync, type Stats } from "node:fs";
import { dirname, join } from "node:path";
import { createJiti, type Jiti } from "jiti";
import { ConfigError } from "./error.ts";
import { show, toLoadError } from "./load-error.ts";
import { isOwnFile } from "./own-file.ts";
import { nextGeneration, readAnew } from "./read-anew.ts";

/** The modules that a project's files get when they import `agentserve`: the very ones that serve them. */
export type OwnModules = Record<string, Record<string, unknown>>;

/** Imports a project's files, again and again: what they import is read anew after `forget()`. */
export interface Modules {
  import(file: string): Promise<Record<string, unknown>>;
  /** The project's own files that are loaded. */
  files(): string[];
  forget(): void;
}

export function createModules(config: string, own: OwnModules): Modules {
  const root = dirname(config);
  readAnew(root);
  const jiti: Jiti = createJiti(config, {
    interopDefault: false,
    virtualModules: own,
    fsCache: cacheFolder(root),
  });
  // Node's own cache of CommonJS modules, in which jiti keeps all that it makes.
  const others = new Set(Object.keys(jiti.cache));
  const files = (): string[] => Object.keys(jiti.cache).filter((file) => !others.has(file) && isOwnFile(file, root));
  return {
    async import(file) {
      if (!existsSync(file)) throw new ConfigError(`${show(file)} is gone`);
      try {
        return await jiti.import<Record<string, unknown>>(file);
      } catch (error) {
        throw toLoadError(error, file, root);
      }
    },
    files,
    forget() {
      nextGeneration();
      for (const file of files()) delete jiti.cache[file];
    },
  };
}

/** Compiled files are code: they are kept with the packages, never in a folder that anybody can write to. */
function cacheFolder(root: string): string | false {
  for (let folder = root; ; folder = dirname(folder)) {
    const packages = join(folder, "node_modules");
    const found = statSync(packages, { throwIfNoEntry: false });
    if (found) return isPrivate(found) && join(packages, ".cache", "agentserve");
    if (folder === dirname(folder)) return false;
  }
}

const isPrivate = ({ uid, mode }: Stats): boolean =>
  process.getuid === undefined || ([0, process.getuid()].includes(uid) && (mode & 0o002) === 0);
