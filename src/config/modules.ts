import { existsSync } from "node:fs";
import { registerHooks } from "node:module";
import { dirname, isAbsolute, join } from "node:path";
import { fileURLToPath } from "node:url";
import { createJiti, type Jiti } from "jiti";
import { ConfigError } from "./error.ts";
import { show, toLoadError } from "./load-error.ts";
import { isOwnFile } from "./own-file.ts";

/** The modules that a project's files get when they import `agentserve`: the very ones that serve them. */
export type OwnModules = Record<string, Record<string, unknown>>;

/** Imports a project's files, again and again: what they import is read anew after `forget()`. */
export interface Modules {
  import(file: string): Promise<Record<string, unknown>>;
  /** The project's own files that are loaded, or that could not be. */
  files(): string[];
  forget(): void;
}

export function createModules(config: string, own: OwnModules): Modules {
  const root = dirname(config);
  roots.add(root);
  ownFilesAreJitis();
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
      for (const file of files()) delete jiti.cache[file];
    },
  };
}

/** Compiled files are code: they are kept with the packages, never in a folder that others may write to, as `/tmp`. */
function cacheFolder(root: string): string | false {
  for (let folder = root; ; folder = dirname(folder)) {
    const packages = join(folder, "node_modules");
    if (existsSync(packages)) return join(packages, ".cache", "agentserve");
    if (folder === dirname(folder)) return false;
  }
}

const roots = new Set<string>();
let hooked = false;
/**
 * jiti leaves ES modules in JavaScript to Node, which would never read them again. Where Node cannot import one, jiti
 * compiles it like all others: so Node cannot import a project's own.
 */
function ownFilesAreJitis(): void {
  if (hooked) return;
  hooked = true;
  registerHooks({
    resolve(specifier, context, next) {
      const isJitis = context.parentURL?.endsWith("/jiti/lib/jiti.mjs");
      const file = specifier.startsWith("file:") ? fileURLToPath(specifier) : specifier;
      if (isJitis && isAbsolute(file) && [...roots].some((root) => isOwnFile(file, root)))
        throw new Error("left to jiti");
      return next(specifier, context);
    },
  });
}
