import { existsSync } from "node:fs";
import { createRequire, registerHooks } from "node:module";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { createJiti, type Jiti } from "jiti";
import { ConfigError } from "./error.ts";
import { show, toLoadError } from "./load-error.ts";
import { isOwnFile } from "./own-file.ts";
import { toCacheFolder } from "./source-map.ts";

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
  // `jiti.cache` is Node's CommonJS cache, so it also holds modules that jiti did not load.
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

const roots = new Set<string>();
let generation = 0;

/**
 * Makes imports read JavaScript files again. jiti leaves JavaScript to Node, whose cache of modules cannot be cleared.
 * From now on, Node refuses the ES modules of this project, and jiti compiles them like TypeScript. A CommonJS module
 * gets a new URL in each generation.
 */
function readAnew(root: string): void {
  if (roots.size === 0) registerHooks({ resolve });
  roots.add(root);
}

/** Makes further imports read the files again. Node keeps the CommonJS exports of every generation. */
function nextGeneration(): void {
  generation++;
}

const resolve: NonNullable<Parameters<typeof registerHooks>[0]["resolve"]> = (specifier, context, next) => {
  const resolved = next(specifier, context);
  if (!context.parentURL?.endsWith("/jiti/lib/jiti.mjs") || !resolved.url.startsWith("file:")) return resolved;
  const file = fileURLToPath(resolved.url);
  if (![...roots].some((root) => isOwnFile(file, root))) return resolved;
  if (resolved.format === "module") throw new Error("left to jiti");
  if (!/\.c?js$/.test(file)) return resolved; // WebAssembly, or not a module
  // Require it before it is imported. Otherwise, a module that occurs twice in one generation sees its own requires as
  // empty.
  createRequire(file)(file);
  return { ...resolved, url: `${resolved.url}?generation=${generation}` };
};
