// npm run test:all: every suite, then one table. `node test/all.ts ci`: the suites of `.ci/run`, with one more try for
// failed files. `node test/all.ts restate`: those on restate-server. All end with the lines that `test/tally.ts` prints for one suite.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync, rmSync } from "node:fs";
import { projects } from "./restate/projects.ts";
import { toLine, type Failure, type Report } from "./tally/report.ts";

interface Suite {
  readonly command: string;
  /** Command to which the failed files are appended. */
  readonly again: string;
}
interface Result extends Report {
  readonly suite: Suite;
  readonly flaky: Failure[];
  readonly minutes: number;
}

const reportFile = "test-results/failed.json";
/** A suite that takes longer hangs. Its processes are killed. */
const maxMinutes = { ci: 40, all: 360 };
/** Parts of the Restate suites, each of at most 6 minutes. The commit hash chooses one: several commits run all of them. */
const restateParts = 8;

const ciSuites = (): Suite[] => [
  { command: "npm test", again: "npx vitest run" },
  { command: "npm run test:deep", again: "npx vitest run" },
  { command: `npm run test:restate -- --shard ${toPart()}/${restateParts}`, again: "npm run test:restate --" },
  { command: "npm run test:browser -- --project 'main path'", again: "npm run test:browser --" },
];
const toSuite = (command: string): Suite => ({ command, again: "" });
const restateSuites = (): Suite[] => projects.map((name) => toSuite(`npm run test:restate -- --project '${name}'`));
const allSuites = (): Suite[] => [
  toSuite("npm run test:full"),
  ...restateSuites(),
  toSuite("npm run test:browser"),
  toSuite("npm run test:hosts"),
];

function toPart(): number {
  const hash = execFileSync("git", ["rev-parse", "--short=8", "HEAD"], { encoding: "utf8" });
  return (Number.parseInt(hash, 16) % restateParts) + 1;
}

const [which] = process.argv.slice(2);
const isCi = which === "ci";
const suites = isCi ? ciSuites() : which === "restate" ? restateSuites() : allSuites();
const results: Result[] = [];
for (const suite of suites) results.push(await runSuite(suite));
print();

async function runSuite(suite: Suite): Promise<Result> {
  const startedAt = Date.now();
  const report = await run(suite.command);
  const flaky = isCi ? await findFlaky(suite, report.failures) : [];
  const failures = report.failures.filter((failure) => !flaky.includes(failure));
  const passed = report.passed + flaky.length;
  return { ...report, passed, failures, suite, flaky, minutes: (Date.now() - startedAt) / 60_000 };
}

/** Runs the failed files once more. Returns the failures of files that pass now. */
async function findFlaky({ again }: Suite, failures: readonly Failure[]): Promise<Failure[]> {
  const files = [...new Set(failures.flatMap(({ file }) => file ?? []))];
  if (files.length === 0) return [];
  const second = await run(`${again} ${files.join(" ")}`);
  const stillFailed = new Set(second.failures.map(({ file }) => file));
  if (stillFailed.has(undefined)) return []; // the second run itself failed
  return failures.filter(({ file }) => file !== undefined && !stillFailed.has(file));
}

async function run(command: string): Promise<Report> {
  rmSync(reportFile, { force: true });
  console.log(`\n$ ${command}`);
  const child = spawn(command, { shell: true, stdio: "inherit", detached: true });
  const limit = isCi ? maxMinutes.ci : maxMinutes.all;
  const timer = setTimeout(() => process.kill(-child.pid!, "SIGKILL"), limit * 60_000);
  const [code, signal] = await once(child, "exit");
  clearTimeout(timer);
  const report = readReport();
  if (report && (code === 0 || report.failures.length > 0)) return report;
  const end = signal === null ? `ended with exit code ${code}` : `was killed by ${signal} (limit: ${limit} minutes)`;
  const failure = { name: command, error: `${end}; see its last lines above`, load: 0 };
  return { passed: 0, failed: 1, skipped: 0, seconds: 0, failures: [failure] };
}

function readReport(): Report | undefined {
  try {
    return JSON.parse(readFileSync(reportFile, "utf8"));
  } catch {
    return undefined; // the suite ended before its tests
  }
}

function print(): void {
  const rows = results.map(({ suite, passed, failures, skipped, minutes }) =>
    [suite.command, passed, failures.length, skipped, minutes.toFixed(1)].map(String),
  );
  const table = [["suite", "passed", "failed", "skipped", "minutes"], ...rows];
  const width = Math.max(...table.map(([name]) => name!.length));
  console.log();
  for (const [name, ...cells] of table) {
    console.log([name!.padEnd(width), ...cells.map((cell) => cell.padStart(8))].join(" "));
  }
  const flaky = results.flatMap((result) => result.flaky);
  const failures = results.flatMap((result) => result.failures);
  for (const failure of flaky) console.log(toLine(failure, "flaky"));
  for (const failure of failures) console.log(toLine(failure, "failed"));
  const sum = (key: "passed" | "skipped"): number => results.reduce((total, result) => total + result[key], 0);
  console.log(`${sum("passed")} passed, ${failures.length} failed, ${sum("skipped")} skipped`);
  process.exitCode = failures.length === 0 ? 0 : 1;
}
