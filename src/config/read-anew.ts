import { createRequire, registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { isOwnFile } from "./own-file.ts";

const roots = new Set<string>();
let generation = 0;

/**
 * Makes imports read JavaScript files again. jiti leaves JavaScript to Node, whose cache of modules cannot be cleared.
 * From now on, Node refuses the ES modules of this project, and jiti compiles them like TypeScript. A CommonJS module
 * gets a new URL in each generation.
 */
export function readAnew(root: string): void {
  if (roots.size === 0) registerHooks({ resolve });
  roots.add(root);
}

/** Makes further imports read the files again. Node keeps the exports of the CommonJS modules of every generation. */
export function nextGeneration(): void {
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
