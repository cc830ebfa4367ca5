import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { createEnv } from "../../src/config/env.ts";
import { createProject } from "../harness/project.ts";

const seen = () => ["AS_ENV", "AS_LOCAL", "AS_REAL"].map((name) => process.env[name]);

it("reads .env and .env.local again: a variable that left them is unset, and the real environment is never changed", () => {
  process.env["AS_REAL"] = "real";
  onTestFinished(() => void ["AS_ENV", "AS_LOCAL", "AS_REAL"].forEach((name) => delete process.env[name]));
  const folder = createProject({ ".env": "AS_ENV=1\nAS_LOCAL=1\nAS_REAL=1\n", ".env.local": "AS_LOCAL=2\n" });
  const read = createEnv(folder);
  read();
  expect(seen()).toEqual(["1", "2", "real"]);
  writeFileSync(join(folder, ".env"), "AS_LOCAL=1\nAS_REAL=2\n");
  rmSync(join(folder, ".env.local"));
  read();
  expect(seen()).toEqual([undefined, "1", "real"]);
  writeFileSync(join(folder, ".env"), "");
  read();
  expect(seen()).toEqual([undefined, undefined, "real"]);
});
