import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { run } from "../../harness/cli.ts";
import { toFileName, type Block } from "./blocks.ts";
import { toFilesBefore } from "./sources.ts";
import type { World } from "./world.ts";

/** `// test/reply.test.ts`, or a helper of such files. */
export const isOfTests = (block: Block): boolean => toFileName(block)?.startsWith("test/") ?? false;

/** `ts`: a file of tests. Vitest runs it in the project of the page, and every test must pass. A helper runs with them. */
export async function runTests(block: Block, world: World): Promise<void> {
  const name = toFileName(block)!;
  if (!isTestFile(block)) {
    const users = world.blocks.filter(
      (one) => one.file === block.file && isOfTests(one) && one.text.includes(toImport(name)),
    );
    expect(users, `no test of the page imports ${name}`).not.toEqual([]);
    return;
  }
  if (!ran.has(world)) ran.set(world, runAll(world));
  const { files, output } = await ran.get(world)!;
  const file = files.find((one) => one.name.endsWith(`/${toFolder(block)}/${name}`));
  const passed = file?.assertionResults.filter(({ status }) => status === "passed") ?? [];
  expect([file?.status, passed.length], output).toEqual(["passed", file?.assertionResults.length]);
  expect(passed.length, output).toBeGreaterThanOrEqual([...block.text.matchAll(/^it\(/gm)].length);
}

/** The files of Vitest's report, and what it printed. */
interface Tested {
  readonly files: readonly { name: string; status: string; assertionResults: readonly { status: string }[] }[];
  readonly output: string;
}
const ran = new WeakMap<World, Promise<Tested>>();

/** Runs the tests of all pages by one Vitest. Each file is in the project of its page, in a folder of its own. */
async function runAll({ blocks, tools }: World): Promise<Tested> {
  const tests = blocks.filter(isTestFile);
  const projects = tests.flatMap((block) =>
    Object.entries({ ...toFilesBefore(block, blocks), [toFileName(block)!]: block.text }).map(
      ([name, text]) => [`${toFolder(block)}/${name}`, text] as const,
    ),
  );
  const cwd = tools.project({ ...Object.fromEntries(projects), "package.json": `{ "type": "module" }` });
  const names = tests.map((block) => `${toFolder(block)}/${toFileName(block)!}`);
  const reporters = ["--reporter=default", "--reporter=json", "--outputFile.json=report.json"];
  const { stdout, stderr } = await run(
    "npx",
    ["vitest", "run", "--no-isolate", "--maxWorkers=1", ...reporters, ...names],
    { cwd, env: tools.env },
  ).ended;
  const report = join(cwd, "report.json");
  const { testResults = [] } = existsSync(report) ? JSON.parse(readFileSync(report, "utf8")) : {};
  return { files: testResults, output: stdout + stderr };
}

const isTestFile = (block: Block): boolean => isOfTests(block) && toFileName(block)!.endsWith(".test.ts");
const toFolder = ({ file, line }: Block): string => `${file.replace(/\W/g, "-")}-${line}`;

/** `from "./client.ts"`, as a file beside it imports `test/client.ts`. */
const toImport = (name: string): string => `from "${name.replace("test/", "./")}"`;
