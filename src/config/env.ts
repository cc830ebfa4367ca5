import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";
import { ConfigError } from "./error.ts";
import { show } from "./load-error.ts";

export const envFiles = [".env", ".env.local"] as const;

/**
 * Loads `.env` and `.env.local` beside the config. The real environment overrides both, and `.env.local` overrides
 * `.env`. Each call reads the files again, and removes variables that are no longer in them.
 */
export function createEnv(folder: string): () => void {
  const real = new Set(Object.keys(process.env));
  let ours: string[] = [];
  return () => {
    const found: Record<string, string | undefined> = {};
    for (const name of envFiles) {
      const file = join(folder, name);
      // A folder of that name is ignored: it may be a virtual environment of Python.
      if (statSync(file, { throwIfNoEntry: false })?.isFile()) Object.assign(found, parseEnv(read(file)));
    }
    const said = Object.entries(found).filter(([key]) => !real.has(key));
    for (const key of ours) if (!(key in found)) delete process.env[key];
    for (const [key, value] of said) process.env[key] = value;
    ours = said.map(([key]) => key);
  };
}

function read(file: string): string {
  try {
    return readFileSync(file, "utf8");
  } catch (cause) {
    throw new ConfigError(`${show(file)} cannot be read: ${(cause as Error).message}`, { cause });
  }
}
