import { spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { agentserve, bin } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { patienceMs } from "../harness/patience.ts";
import { parseLines } from "./call/stage.ts";

/** A config that prints in every way that there is: while it loads, later, and when it is disposed of. */
const noisy = `import { execFileSync } from "node:child_process";
import { writeSync } from "node:fs";
import { defineConfig, jwtAuth } from "agentserve";
console.log("noise: console");
process.stdout.write("noise: stream\\n");
writeSync(1, "noise: file descriptor\\n");
execFileSync(process.execPath, ["-e", "console.log('noise: child')"], { stdio: "inherit" });
setInterval(() => console.log("noise: timer"), 1);
const print = (level) => (message) => writeSync(1, \`noise: \${level} \${message}\\n\`);
export default defineConfig({
  auth: jwtAuth({ secret: "a secret of at least thirty-two bytes" }),
  logger: { info: print("info"), warn: print("warn"), error: print("error") },
  onDispose: () => console.log("noise: disposed"),
});
`;

describe("stdout has the result and nothing else, whatever the config prints", () => {
  const cwd = () => createProject({ "agents.config.ts": noisy });

  it("token prints only the token to stdout, whatever the config prints", async () => {
    const { code, stdout, stderr } = await agentserve(["token", "--sub", "ada"], { cwd: cwd() }).ended;
    expect(stdout).toMatch(/^[\w-]+\.[\w-]+\.[\w-]+\n$/);
    expect(stderr).toMatch(/noise: file descriptor[^]*the config of this project accepts this token/);
    expect(code).toBe(0);
  });

  it.each(["routes", "doctor"])("%s --json prints only JSON to stdout, whatever the config prints", async (command) => {
    const { code, stdout, stderr } = await agentserve([command, "--json"], { cwd: cwd() }).ended;
    expect(stdout).not.toContain("noise");
    expect(JSON.parse(stdout)).toBeTypeOf("object");
    for (const kind of ["console", "stream", "file descriptor", "child", "disposed"]) {
      expect(stderr).toContain(`noise: ${kind}\n`);
    }
    expect(code).toBe(0);
  });

  it("prints a result larger than a pipe whole, even if its reader is slow", async () => {
    const route = `(app, n) => app.get(\`/a-route-with-a-rather-long-name/number-\${n}\`, () => n)`;
    const config = `export default { configureApp: (app) => { for (let n = 0; n < 2000; n++) (${route})(app, n); } };\n`;
    const command = `"${process.execPath}" "${bin}" routes --json | (sleep 0.3; cat)`;
    const folder = createProject({ "agents.config.ts": config });
    const { stdout } = spawnSync("sh", ["-c", command], { cwd: folder, encoding: "utf8", maxBuffer: 1e8 });
    expect(stdout.length).toBeGreaterThan(300_000);
    expect(JSON.parse(stdout).length).toBeGreaterThan(2_000);
  });

  it("prints nothing to stdout when a command fails, and ends with 1", async () => {
    const folder = createProject({
      "agents.config.ts": "console.log('noise'); export default { server: { port: -1 } };\n",
    });
    for (const args of [
      ["routes", "--json"],
      ["token", "--sub", "ada"],
    ]) {
      const { code, stdout, stderr } = await agentserve(args, { cwd: folder }).ended;
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("server.port");
    }
  });

  it("prints no error when the reader of stdout closes the pipe first", () => {
    const command = `"${process.execPath}" "${bin}" routes --json | head -1`;
    const { stdout, stderr } = spawnSync("sh", ["-c", command], { cwd: cwd(), encoding: "utf8" });
    expect(stdout).toBe("[\n");
    expect(stderr).not.toMatch(/EPIPE|error/);
  });
});

describe("--json logs only JSON", () => {
  const risky = { "agents.config.ts": "export default { server: { https: true } };\n" };
  const args = ["--port", "0", "--data", ":memory:", "--json"];

  it("start --json logs the URL, the warnings and the shutdown as JSON", async () => {
    const child = agentserve(["start", ...args], { cwd: createProject(risky) });
    await expect.poll(() => child.output().stderr, { timeout: patienceMs }).toContain("Pages of any origin");
    child.process.kill("SIGINT");
    const { stdout, stderr, code } = await child.ended;
    expect({ stdout, code }).toEqual({ stdout: "", code: 0 });
    const records = parseLines(stderr);
    expect(records).toMatchObject([
      { level: "info", message: "Server started", data: { mode: "start", url: expect.stringMatching(/^http:/) } },
      { level: "warn", message: expect.stringContaining("any origin"), data: { hint: expect.any(String) } },
      { level: "warn", message: expect.stringContaining("server.https works only in dev") },
      { level: "info", message: "Shutting down" },
    ]);
  });

  it("start --json logs an error that prevents the start as JSON", async () => {
    const broken = createProject({ "agents.config.ts": "export default { server: { port: -1 } };\n" });
    const { stdout, stderr, code } = await agentserve(["start", ...args], { cwd: broken }).ended;
    expect({ stdout, code }).toEqual({ stdout: "", code: 1 });
    expect(parseLines(stderr)).toMatchObject([
      { level: "error", timestamp: expect.any(String), message: expect.stringContaining("server.port") },
    ]);
  });

  it("dev --json logs a reload and a version that cannot be loaded as JSON", async () => {
    const cwd = createProject(risky);
    const child = agentserve(["dev", ...args], { cwd });
    const logged = () => child.output().stderr;
    await expect.poll(logged, { timeout: patienceMs }).toContain("Pages of any origin");
    const save = (text: string): void => writeFileSync(join(cwd, "agents.config.ts"), text);
    await expect
      .poll(() => (save("export default { server: { cors: false } };\n"), logged()), { interval: 500 })
      .toContain("agents.config.ts");
    save("export default {\n");
    // A load that reads the file while it is written fails with another message.
    await expect.poll(logged).toMatch(/"message":"agents\.config\.ts:\d+:\d+: /);
    child.process.kill("SIGINT");
    const { stdout, stderr } = await child.ended;
    expect(stdout).toBe("");
    expect(parseLines(stderr)).toContainEqual(
      expect.objectContaining({ level: "error", message: expect.stringMatching(/^agents\.config\.ts:\d+:\d+: /) }),
    );
  });
});
