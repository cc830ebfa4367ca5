// npm run test:mutations: puts each fault into a copy of the project, one at a time, and runs the suite that must notice it.
//   npm run test:mutations -- engine auth       faults of these files only
//   npm run test:mutations -- --in <folder>     the same faults in another checkout, such as an earlier commit
//   npm run test:mutations -- --suite <path>    faults that another suite notices
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { parseArgs } from "node:util";
import type { Report } from "../tally/report.ts";
import type { Mutation } from "./mutation.ts";

type Outcome =
  | { readonly type: "noticed"; readonly by: string }
  | { readonly type: "survived" }
  /** The fault cannot be judged: its line is not there, its suite fails without it, or no test ran. */
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
const suites = [...new Set(mutations.map(toSuite))];
await Promise.all(copies.map((copy) => build(copy)));
console.log(`${mutations.length} faults; first, ${suites.length} suites without any`);
const controls = new Map(await inCopies(suites, async (suite, copy) => [suite, await runSuite(suite, copy)] as const));
const outcomes = await inCopies(mutations, tryMutation);
print();

async function readMutations(): Promise<Mutation[]> {
  const areas = { ...(await import("./index.ts")) };
  const chosen = Object.entries(areas).filter(([name]) => positionals.length === 0 || positionals.includes(name));
  return chosen.flatMap(([, list]) => list);
}

async function tryMutation(mutation: Mutation, copy: string): Promise<Outcome> {
  const outcome = await judge(mutation, copy);
  const detail =
    outcome.type === "survived" ? mutation.suite : outcome.type === "noticed" ? outcome.by : outcome.reason;
  console.log(`${outcome.type.padEnd(8)} ${mutation.file}: ${mutation.breaks} (${detail})`);
  return outcome;
}

async function judge(mutation: Mutation, copy: string): Promise<Outcome> {
  const suite = toSuite(mutation);
  const control = controls.get(suite)!;
  if (control.failed > 0) return { type: "invalid", reason: `${suite} fails without it: ${toNames(control)}` };
  if (control.passed === 0) return { type: "invalid", reason: `${suite} has no tests` };
  const file = join(copy, mutation.file);
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  const parts = text.split(mutation.find);
  if (parts.length !== 2) return { type: "invalid", reason: `its line is ${parts.length - 1} times in the file` };
  writeFileSync(file, parts.join(mutation.replace));
  try {
    if (mutation.isBuilt) await build(copy);
    const report = await runSuite(suite, copy);
    if (report.failures.length === 0) return { type: "survived" };
    const isUnloaded = report.passed === 0 && report.failures.every(({ name }) => name === "(file)");
    if (isUnloaded) return { type: "invalid", reason: `no test ran: ${toNames(report)}` };
    return { type: "noticed", by: toNames(report) };
  } finally {
    writeFileSync(file, text);
    if (mutation.isBuilt) await build(copy);
  }
}

function toNames({ failures }: Report): string {
  return failures.map(({ name, error }) => `${name}: ${error}`)[0]!.slice(0, 160);
}

/** The suite of a fault. In a checkout that does not have the file: its folder. */
function toSuite({ suite }: Mutation): string {
  let path = flags.suite ?? suite;
  while (!existsSync(join(source, path))) path = dirname(path);
  return path;
}

async function runSuite(suite: string, copy: string): Promise<Report> {
  const reportFile = join(copy, "test-results/mutation.json");
  rmSync(reportFile, { force: true });
  const reporter = join(import.meta.dirname, "../tally/tally.ts"); // also for checkouts that have none
  const args = ["run", "--bail", "1", "--reporter", reporter, suite];
  await run("node_modules/vitest/vitest.mjs", args, copy, { TALLY: reportFile });
  if (existsSync(reportFile)) return JSON.parse(readFileSync(reportFile, "utf8"));
  const failure = { name: suite, error: "killed: the suite did not end", load: 0 };
  return { passed: 0, failed: 1, skipped: 0, seconds: 0, failures: [failure] };
}

function build(copy: string): Promise<void> {
  return run("node_modules/tsdown/dist/run.mjs", ["--logLevel", "warn"], copy, {});
}

async function run(program: string, args: string[], cwd: string, env: NodeJS.ProcessEnv): Promise<void> {
  const options = { cwd, env: { ...process.env, ...env }, stdio: "ignore", detached: true } as const;
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
  symlinkSync(join(source, "node_modules"), join(copy, "node_modules"));
  return copy;
}

function print(): void {
  const count = (type: Outcome["type"]): number => outcomes.filter((outcome) => outcome.type === type).length;
  console.log(
    `\n${mutations.length} faults: ${count("noticed")} noticed, ${count("survived")} survived, ${count("invalid")} invalid`,
  );
  for (const [index, { type }] of outcomes.entries()) {
    const { file, breaks, suite } = mutations[index]!;
    if (type !== "noticed") console.log(`${type}: ${file}: ${breaks} (${suite})`);
  }
  process.exitCode = count("noticed") === mutations.length ? 0 : 1;
}
