import { appendFileSync, globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { randomUUID } from "node:crypto";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Ring } from "../../src/observability/ring.ts";

const folder = "LOGGED_BY_TESTS";

/** Texts that must not be logged: tokens of any kind, and the secrets that the tests use. */
const hidden =
  /(?<![\w-])eyJ[\w-]{8,4096}\.[\w-]{8,4096}\.[\w-]{8,}|a secret of at least thirty-two bytes|sk-test-|hunter2/g;

const own = randomUUID();
let bytes = 0;
let written = 0;

/** Searches the log of a server for secrets, and keeps those that it finds. */
export function keepLogged(text: string): void {
  const kept = process.env[folder];
  if (!kept) return;
  bytes += text.length;
  const found = text.match(hidden);
  if (found) appendFileSync(join(kept, `${own}.found`), `${found.join("\n")}\n`);
  if (written > 0 && bytes < 2 * written) return;
  written = bytes;
  writeFileSync(join(kept, `${own}.bytes`), String(bytes));
}

let keeping = false;

/** Checks every record of every server in this process. Test files that share a process call it once each. */
export function keepRecords(): void {
  if (keeping) return;
  keeping = true;
  const { add } = Ring.prototype;
  Ring.prototype.add = function (entry) {
    keepLogged(entry.text);
    add.call(this, entry);
  };
}

/** Called by Vitest before the first test; what it returns, after the last one. */
export function setup(): () => void {
  const kept = (process.env[folder] = mkdtempSync(join(tmpdir(), "agentserve-logged-")));
  return () => {
    const read = (kind: string) =>
      globSync(`*.${kind}`, { cwd: kept }).map((name) => readFileSync(join(kept, name), "utf8"));
    const all = read("bytes").reduce((sum, text) => sum + Number(text), 0);
    const found = read("found").join("").split("\n").filter(Boolean);
    rmSync(kept, { recursive: true, force: true });
    process.stdout.write(`logged by servers under test: ${all} bytes at least, ${found.length} secrets in them\n`);
    if (found.length > 0) throw new Error(`A server under test has logged ${found[0]!.slice(0, 24)}…`);
  };
}
