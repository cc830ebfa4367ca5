import { createRequire, registerHooks } from "node:module";
import { fileURLToPath } from "node:url";
import { isOwnFile } from "./own-file.ts";

const roots = new Set<string>();
let generation = 0;

/**
 * jiti leaves JavaScript to Node, which would never read it again. From now on Node refuses the ES modules of this project,
 * whereupon jiti compiles them as it does TypeScript; a CommonJS module gets another address with each generation.
 */
export function readAnew(root: string): void {
  if (roots.size === 0) registerHooks({ resolve });
  roots.add(root);
}

/** What is imported from now on is read anew. Node keeps the exports of each CommonJS module of each generation. */
export function nextGeneration(): void {
  generation++;
}

const resolve: NonNullable<Parameters<typeof registerHooks>[0]["resolve"]> = (specifier, context, next) => {
  const resolved = next(specifier, context);
  if (!context.parentURL?.endsWith("/jiti/lib/jiti.mjs") || !resolved.url.startsWith("file:")) return resolved;
  const file = fileURLToPath(resolved.url);
  if (![...roots].some((root) => isOwnFile(file, root))) return resolved;
  if (resolved.format === "module") throw new Error("left to jiti");
  if (!/\.c?js$/.test(file)) return resolved; // WebAssembly, or what is no module
  // First as `require` would: where it meets a module twice in one generation, `import` gives what it requires as empty.
  createRequire(file)(file);
  return { ...resolved, url: `${resolved.url}?generation=${generation}` };
};
