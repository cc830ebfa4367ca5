import { appendFileSync, globSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const folder = "LOGGED_BY_TESTS";

/** Keeps what a server has logged until the whole run is over. */
export function keepLogged(text: string): void {
  const kept = process.env[folder];
  if (kept) appendFileSync(join(kept, `${process.pid}.log`), text);
}

/** What must not stand in there: tokens of any making, and the secrets that the tests use. */
const hidden = /eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,}|a secret of at least thirty-two bytes|sk-test-|hunter2/g;

/** Called by Vitest before the first test; what it returns, after the last one. */
export function setup(): () => void {
  const kept = (process.env[folder] = mkdtempSync(join(tmpdir(), "agentserve-logged-")));
  return () => {
    const texts = globSync("*.log", { cwd: kept }).map((name) => readFileSync(join(kept, name), "utf8"));
    rmSync(kept, { recursive: true, force: true });
    const bytes = texts.reduce((sum, text) => sum + text.length, 0);
    const found = texts.flatMap((text) => text.match(hidden) ?? []);
    process.stdout.write(`logged by servers under test: ${bytes} bytes, of which ${found.length} are secrets\n`);
    if (found.length > 0) throw new Error(`A server under test has logged ${found[0]!.slice(0, 24)}…`);
  };
}
