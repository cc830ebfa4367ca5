import { createHash } from "node:crypto";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { uiScript, uiStyle } from "./ui.ts";

export const fileNames = ["swagger-ui-bundle.js", "swagger-ui.css", "page.js", "page.css"] as const;
export type FileName = (typeof fileNames)[number];

export interface UiFile {
  readonly text: string;
  readonly type: string;
  /** A hash of the text. */
  readonly version: string;
}

/** Creates a reader for the files of Swagger UI and its page. A file is read on first use and cached. */
export function createUiFiles(): (name: FileName) => Promise<UiFile> {
  const files = new Map<FileName, Promise<UiFile>>();
  return (name) => {
    const kept = files.get(name) ?? read(name);
    files.set(name, kept);
    kept.catch(() => files.delete(name)); // a failed read is not cached
    return kept;
  };
}

async function read(name: FileName): Promise<UiFile> {
  const text = name in own ? own[name as keyof typeof own] : await readFile(find(name), "utf8");
  const version = createHash("sha256").update(text).digest("hex").slice(0, 16);
  return { text, version, type: name.endsWith(".css") ? "text/css" : "text/javascript" };
}

const own = { "page.js": uiScript, "page.css": uiStyle };

/**
 * Returns the path of a file. The build copies the files next to the bundle. From source, they are in the
 * `swagger-ui-dist` package.
 */
function find(name: string): URL | string {
  if (!import.meta.url.endsWith(".ts")) return new URL(`swagger-ui/${name}`, import.meta.url);
  return createRequire(import.meta.url).resolve(`swagger-ui-dist/${name}`);
}
