// npm run test:mutations: puts each fault into a copy of the project, one at a time, and runs the suites that must notice it.
// Those of the Restate backend run on a restate-server.
//   npm run test:mutations -- engine auth       faults of these files only
//   npm run test:mutations -- --in <folder>     the same faults in another checkout, such as an earlier commit
//   npm run test:mutations -- --suite <path>    faults that another suite notices
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { delimiter, dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Report } from "../tally/report.ts";
import { splitSuite, type Mutation, type Suite } from "./mutation.ts";

/** A suite on one of the backends. */
interface SuiteRun {
  readonly name: string;
  readonly path: string;
  readonly words: string | undefined;
  readonly isOnRestate: boolean;
}

type Outcome =
  | { readonly type: "noticed"; readonly by: string }
  /** A suite has passed. */
  | { readonly type: "survived"; readonly suite: string }
  /** The fault cannot be judged: its line is not there, a suite fails without it, or no test ran. */
  | { readonly type: "invalid"; readonly reason: string };

/** A suite that takes longer hangs by its fault. */
const maxMs = 600_000;

const { values: flags, positionals } = parseArgs({
  allowPositionals: true,
  options: { in: { type: "string" }, suite: { type: "string" } },
});
const source = resolve(flags.in ?? ".");
const copies = Array.from({ length: availableParallelism() }, makeCopy);
process.once("exit", () => copies.forEach((copy) => rmSync(copy, { recursive: true, force: true })));

const mutations = await readMutations();
const runs = [...new Map(mutations.flatMap(toRuns).map((one) => [one.name, one])).values()];
await Promise.all(copies.map((copy) => build(copy)));
console.log(`${mutations.length} faults; first, ${runs.length} suites without any`);
const controls = new Map(await inCopies(runs, async (one, copy) => [one.name, await runSuite(one, copy)] as const));
const outcomes = await inCopies(mutations, tryMutation);
print();

async function readMutations(): Promise<Mutation[]> {
  const areas = { ...(await import("./index.ts")) };
  const chosen = Object.entries(areas).filter(([name]) => positionals.length === 0 || positionals.includes(name));
  return chosen.flatMap(([, list]) => list);
}

async function tryMutation(mutation: Mutation, copy: string): Promise<Outcome> {
  const startedAt = performance.now();
  const outcome = await judge(mutation, copy);
  const seconds = Math.round((performance.now() - startedAt) / 1_000);
  const detail = outcome.type === "survived" ? outcome.suite : outcome.type === "noticed" ? outcome.by : outcome.reason;
  console.log(`${outcome.type.padEnd(8)} ${mutation.file}: ${mutation.breaks} (${seconds} s: ${detail})`);
  return outcome;
}

async function judge(mutation: Mutation, copy: string): Promise<Outcome> {
  for (const { name } of toRuns(mutation)) {
    const control = controls.get(name)!;
    if (control.failed > 0) return { type: "invalid", reason: `${name} fails without it: ${toNames(control)}` };
    if (control.passed === 0) return { type: "invalid", reason: `${name} has no tests` };
  }
  const file = join(copy, mutation.file);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const parts = text.split(mutation.find);
  if (parts.length !== 2) return { type: "invalid", reason: `its line is ${parts.length - 1} times in the file` };
  writeFileSync(file, parts.join(mutation.replace));
  try {
    if (mutation.isBuilt) await build(copy);
    const names: string[] = [];
    for (const one of toRuns(mutation)) {
      const report = await runSuite(one, copy);
      if (report.failures.length === 0) return { type: "survived", suite: one.name };
      const isUnloaded = report.passed === 0 && report.failures.every(({ name }) => name === "(file)");
      if (isUnloaded) return { type: "invalid", reason: `no test ran: ${toNames(report)}` };
      names.push(toNames(report));
    }
    return { type: "noticed", by: names.join("; ") };
  } finally {
    writeFileSync(file, text);
    if (mutation.isBuilt) await build(copy);
  }
}

function toNames({ failures }: Report): string {
  return failures.map(({ name, error }) => `${name}: ${error}`)[0]!.slice(0, 160);
}

function toRuns({ suite, backends }: Mutation): SuiteRun[] {
  if (flags.suite !== undefined) return [toRun(flags.suite)];
  return [toRun(suite), ...(backends ? [toRun(backends.embedded), toRun(backends.restate, true)] : [])];
}

/** A run of a suite. In a checkout that does not have the file: of its folder. */
function toRun(suite: Suite, isOnRestate = false): SuiteRun {
  let { path, words } = splitSuite(suite);
  while (!existsSync(join(source, path))) path = dirname(path);
  return { name: isOnRestate ? `${suite} on Restate` : suite, path, words, isOnRestate };
}

async function runSuite({ name, path, words, isOnRestate }: SuiteRun, copy: string): Promise<Report> {
  const reportFile = join(copy, "test-results/mutation.json");
  rmSync(reportFile, { force: true });
  const reporter = join(import.meta.dirname, "../tally/tally.ts"); // also for checkouts that have none
  const args = ["--bail", "1", "--reporter", reporter, path, ...(words ? ["-t", toPattern(words)] : [])];
  const env = { TALLY: reportFile };
  // The suites of three replicas are among those of one.
  if (isOnRestate) await run("test/restate/run.mjs", ["--project", "!three replicas", ...args], copy, env);
  else await run("node_modules/vitest/vitest.mjs", ["run", ...args], copy, env);
  if (existsSync(reportFile)) return JSON.parse(readFileSync(reportFile, "utf8"));
  const failure = { name, error: "killed: the suite did not end", load: 0 };
  return { passed: 0, failed: 1, skipped: 0, seconds: 0, failures: [failure] };
}

function toPattern(words: string): string {
  return words.replaceAll(/[\\^$.*+?()[\]{}|]/g, String.raw`\$&`);
}

function build(copy: string): Promise<void> {
  return run("node_modules/tsdown/dist/run.mjs", ["--logLevel", "warn"], copy, {});
}

async function run(program: string, args: string[], cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  const path = [join(cwd, "node_modules/.bin"), process.env["PATH"]].join(delimiter);
  const options = { cwd, env: { ...process.env, PATH: path, ...env }, stdio: "ignore", detached: true } as const;
  const child = spawn(process.execPath, [join(cwd, program), ...args], options);
  const timer = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), maxMs);
  await once(child, "exit");
  clearTimeout(timer);
}

/** Handles items side by side, one per copy. Results are in the order of the items. */
async function inCopies<Item, Value>(
  items: readonly Item[],
  handle: (item: Item, copy: string) => Promise<Value>,
): Promise<Value[]> {
  const values: Value[] = [];
  let next = 0;
  const work = async (copy: string): Promise<void> => {
    for (let index = next++; index < items.length; index = next++) values[index] = await handle(items[index]!, copy);
  };
  await Promise.all(copies.map(work));
  return values;
}

function makeCopy(): string {
  const copy = mkdtempSync(join(tmpdir(), "agentserve-mutations-"));
  const left = new Set(["node_modules", ".git", "dist", "test-results"].map((name) => join(source, name)));
  cpSync(source, copy, { recursive: true, filter: (path) => !left.has(path) && !path.endsWith("/node_modules") });
  for (const folder of ["", "test/restate/server"]) {
    const installed = join(source, folder, "node_modules");
    if (existsSync(installed)) symlinkSync(installed, join(copy, folder, "node_modules"));
  }
  return copy;
}

function print(): void {
  const count = (type: Outcome["type"]): number => outcomes.filter((outcome) => outcome.type === type).length;
  console.log(
    `\n${mutations.length} faults: ${count("noticed")} noticed, ${count("survived")} survived, ${count("invalid")} invalid`,
  );
  for (const [index, outcome] of outcomes.entries()) {
    const { file, breaks, suite } = mutations[index]!;
    const missed = outcome.type === "survived" ? outcome.suite : suite;
    if (outcome.type !== "noticed") console.log(`${outcome.type}: ${file}: ${breaks} (${missed})`);
  }
  process.exitCode = count("noticed") === mutations.length ? 0 : 1;
}
