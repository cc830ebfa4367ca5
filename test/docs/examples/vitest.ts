import { expect } from "vitest";
import { run } from "../../harness/cli.ts";
import { toFileName, type Block } from "./blocks.ts";
import { toFilesBefore } from "./sources.ts";
import type { World } from "./world.ts";

/** `// test/reply.test.ts`, or a helper of such files. */
export const isOfTests = (block: Block): boolean => toFileName(block)?.startsWith("test/") ?? false;

/** `ts`: a file of tests. Vitest runs it in the project of the page, and every test must pass. A helper runs with them. */
export async function runTests(block: Block, { blocks, tools }: World): Promise<void> {
  const name = toFileName(block)!;
  if (!name.endsWith(".test.ts")) {
    const users = blocks.filter(
      (one) => one.file === block.file && isOfTests(one) && one.text.includes(toImport(name)),
    );
    expect(users, `no test of the page imports ${name}`).not.toEqual([]);
    return;
  }
  const files = { ...toFilesBefore(block, blocks), [name]: block.text, "package.json": `{ "type": "module" }` };
  const cwd = tools.project(files);
  const { code, stdout, stderr } = await run("npx", ["vitest", "run", name], { cwd, env: tools.env }).ended;
  expect(code, stdout + stderr).toBe(0);
  const count = [...block.text.matchAll(/^it\(/gm)].length;
  const [, passed] = /Tests +(\d+) passed \(\d+\)/.exec(stdout) ?? [];
  expect(Number(passed), stdout).toBeGreaterThanOrEqual(count);
}

/** `from "./client.ts"`, as a file beside it imports `test/client.ts`. */
const toImport = (name: string): string => `from "${name.replace("test/", "./")}"`;
