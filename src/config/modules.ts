import { existsSync } from "node:fs";
import { dirname } from "node:path";
import { createJiti, type Jiti } from "jiti";
import { toCacheFolder } from "./cache-folder.ts";
import { ConfigError } from "./error.ts";
import { show, toLoadError } from "./load-error.ts";
import { isOwnFile } from "./own-file.ts";
import { nextGeneration, readAnew } from "./read-anew.ts";

/** The modules that a project gets when it imports `agentserve`: the instances of the running server. */
export type OwnModules = Record<string, Record<string, unknown>>;

/** Imports the files of a project. After `forget()`, they and their own imports are read again. */
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
    fsCache: toCacheFolder(root),
    sourceMaps: true, // read by `toSource`
  });
  // Node's cache of CommonJS modules. jiti stores its modules there as well.
  const others = new Set(Object.keys(jiti.cache));
  const files = (): string[] => Object.keys(jiti.cache).filter((file) => !others.has(file) && isOwnFile(file, root));
  return {
    async import(file) {
      if (!existsSync(file)) throw new ConfigError(`${show(file)} no longer exists`);
      try {
        return await jiti.import<Record<string, unknown>>(file);
      } catch (error) {
        throw toLoadError(error, file, root, (specifier) => own[specifier] && Object.keys(own[specifier]));
      }
    },
    files,
    forget() {
      nextGeneration();
      for (const file of files()) delete jiti.cache[file];
    },
  };
}
