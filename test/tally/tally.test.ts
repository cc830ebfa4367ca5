import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { beforeAll, expect, it } from "vitest";
import type { Report } from "./report.ts";

let code: number | null;
let lastLines: string[];
let report: Report;

beforeAll(() => {
  const file = join(mkdtempSync(join(tmpdir(), "agentserve-tally-")), "failed.json");
  const args = ["run", "--config", "test/tally/project/vitest.config.ts"];
  const env = { ...process.env, TALLY: file, NO_COLOR: "1" };
  const ended = spawnSync(process.execPath, [resolve("node_modules/vitest/vitest.mjs"), ...args], {
    env,
    encoding: "utf8",
  });
  code = ended.status;
  lastLines = ended.stdout.trimEnd().split("\n").slice(-10);
  report = JSON.parse(readFileSync(file, "utf8"));
});

const failures = [
  ["test", "failing-test.ts", "a suite > has a test that fails", "expected 1 to be 2"],
  ["beforeAll hook", "failing-hook.ts", "a suite with a hook > beforeAll", "the hook threw"],
  [
    "unhandled rejection",
    "unhandled-rejection.ts",
    "leaves a rejection behind > Unhandled Rejection",
    "nobody awaited this",
  ],
  ["killed worker", "killed-worker.ts", "(worker)", "signal SIGKILL"],
  ["global teardown", undefined, "global teardown", "the teardown threw"],
] as const;

it.each(failures)("a failed run names a failed %s in its last ten lines", (_, file, name, error) => {
  const start = `failed: ${file === undefined ? "" : `${file} > `}${name}: `;
  const line = lastLines.find((one) => one.startsWith(start));
  expect(line, lastLines.join("\n")).toContain(error);
  expect(line!.length).toBeLessThanOrEqual(start.length + 300);
});

it.each(failures)("failed.json has a failed %s with its error and the load of the machine", (_, file, name, error) => {
  const found = report.failures.find((one) => one.name === name && one.file === file);
  expect(found).toMatchObject({ error: expect.stringContaining(error), load: expect.any(Number) });
  if (file !== undefined) expect(found!.repeat).toContain(file);
});

it("a failed run ends with the counts and an exit code", () => {
  expect(lastLines.at(-1)).toBe("2 passed, 5 failed, 1 skipped");
  expect(report).toMatchObject({ passed: 2, failed: 5, skipped: 1 });
  expect(report.failures).toHaveLength(5);
  expect(code).toBe(1);
});
