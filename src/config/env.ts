import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { parseEnv } from "node:util";

/** Loads `.env` and `.env.local` beside the config. The real environment wins over both, `.env.local` over `.env`. */
export function loadEnv(folder: string): void {
  for (const name of [".env.local", ".env"]) {
    const file = join(folder, name);
    if (!existsSync(file)) continue;
    for (const [key, value] of Object.entries(parseEnv(readFileSync(file, "utf8")))) process.env[key] ??= value;
  }
}
