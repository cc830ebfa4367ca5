import { execFileSync } from "node:child_process";
import { copyFileSync, globSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import manifest from "../package.json" with { type: "json" };
import { run } from "./harness/cli.ts";
import { install, pack, userEnv } from "./harness/packed.ts";

const folder = mkdtempSync(join(tmpdir(), "agentserve-package-"));
const app = join(folder, "app");

beforeAll(() => {
  mkdirSync(app);
  writeFileSync(join(app, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  install(app, pack(folder));
  copyFileSync("agents.config.ts.example", join(app, "agents.config.ts"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the packed package, installed into an empty folder", () => {
  it.each(["dev", "start"])(
    "serves the example config from the packed package with npx agentserve %s",
    async (command) => {
      const child = run("npx", ["agentserve", command, "--port", "0"], { cwd: app, env: userEnv, detached: true });
      const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
      const { data } = await (await fetch(`${base}/workflows/greeting`)).json();
      expect(data).toMatchObject({ id: "greeting", inputSchema: { properties: { name: { type: "string" } } } });
      expect(await (await fetch(`${base}/hello`)).json()).toEqual({ ok: true });
      const body = JSON.stringify({ input: { name: "Ada" } });
      const init = { method: "POST", body, headers: { "content-type": "application/json" } };
      const ran = await (await fetch(`${base}/workflows/greeting/execute`, init)).json();
      expect(ran.data).toMatchObject({ status: "completed", result: { text: "Hello Ada" } });
      // The check of a schema is a process of its own, and a file of the package.
      const schema = { type: "object", properties: { said: { type: "string" } }, required: ["said"] };
      const asked = { ...init, body: JSON.stringify({ input: "hi", schema }) };
      const object = await (await fetch(`${base}/agents/parrot/object`, asked)).json();
      expect(object).toEqual({ success: true, data: { said: "hi" } });
      process.kill(-child.process.pid!, "SIGTERM");
      await child.ended;
    },
  );

  it("type-checks the example config and a custom route against the packed package", () => {
    const access = `import { defineConfig, jwtAuth } from "agentserve";
      export default defineConfig({
        auth: jwtAuth({ secret: "x", mapUser: ({ sub }) => ({ id: sub }) }),
        configureApp: (app) => void app.get("/me", ({ context }) => context.authenticatedUser?.["id"]),
      });`;
    writeFileSync(join(app, "access.ts"), access);
    const options = [
      "--noEmit",
      "--skipLibCheck",
      "--strict",
      "--module",
      "nodenext",
      "--target",
      "es2024",
      "--types",
      "",
      "agents.config.ts",
      "access.ts",
    ];
    execFileSync(process.execPath, [resolve("node_modules/typescript/bin/tsc"), "--ignoreConfig", ...options], {
      cwd: app,
      stdio: "inherit",
    });
  });

  it("installs at most 50 MB", () => {
    const files = globSync("node_modules/**", { cwd: app }).map((file) => statSync(join(app, file)));
    const bytes = files.reduce((sum, file) => sum + (file.isFile() ? file.size : 0), 0);
    console.log(`installed: ${(bytes / 1e6).toFixed(1)} MB in ${files.length} files`);
    expect(bytes).toBeLessThan(50_000_000);
  });

  it("publint finds no problem in the package", async () => {
    const { messages } = await publint({ pkgDir: resolve("."), strict: true, pack: "npm" });
    expect(messages.map((message) => formatMessage(message, manifest as never))).toEqual([]);
  });
});
