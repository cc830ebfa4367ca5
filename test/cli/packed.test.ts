import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { run, type Child } from "../harness/cli.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { execute, install, npm, npx, pack, userEnv } from "../harness/packed.ts";

const folder = createSharedFolder("packed");
const templates = ["starter", "minimal"];
const address = "http://127.0.0.1:3141"; // as the templates' own README has it

it("packs, installs, runs init and answers every call of the README of starter and minimal", async () => {
  const empty = join(folder, "empty");
  mkdirSync(empty);
  const tarball = await stage("npm pack", () => pack(folder));
  await stage("npm install, into an empty folder", () => install(empty, tarball));
  for (const template of templates) {
    await stage(`npx agentserve init ${template}`, () => {
      const said = npx(["agentserve", "init", template, "--template", template], empty);
      expect(said).toContain(`  cd ${template}\n  npm install\n  npx agentserve dev\n`);
    });
  }
  rmSync(join(empty, "node_modules"), { recursive: true }); // from here on each has only what itself asks for
  for (const template of templates) {
    const app = join(empty, template);
    npm(["pkg", "set", `dependencies.agentserve=file:${tarball}`], app);
    await stage(`${template}: npm install`, () => install(app));
    await stage(`${template}: npx tsc`, () => npx(["tsc"], app));
    for (const command of template === "starter" ? ["dev", "start"] : ["start"]) {
      await stage(`${template}: npx agentserve ${command}, and all that its README calls`, async () => {
        const { child, base } = await serve(app, command);
        const examples = readExamples(join(app, "README.md"));
        expect(examples).toHaveLength(template === "starter" ? 3 : 1);
        for (const { line, answer } of examples) {
          expect(execute("sh", ["-c", line.replace(address, base)], app)).toMatch(answer);
        }
        process.kill(-child.process.pid!, "SIGINT"); // as Ctrl+C: to all of the terminal
        expect((await child.ended).stderr).not.toMatch(/error|warning/);
        await expect(fetch(base)).rejects.toThrow("fetch failed");
      });
    }
  }
}, 300_000);

it.runIf(process.env["TEST_SIZE"] === "full")(
  "installs the support desk with one copy of ai, checks its types and builds its page",
  async () => {
    const empty = join(folder, "desk");
    mkdirSync(empty);
    const tarball = pack(empty);
    install(empty, tarball);
    npx(["agentserve", "init", "app", "--template", "support-desk"], empty);
    const app = join(empty, "app");
    npm(["pkg", "set", `dependencies.agentserve=file:${tarball}`], app);
    await stage("support-desk: npm install", () => install(app));
    const { dependencies } = JSON.parse(npm(["ls", "ai", "--json"], app));
    expect(existsSync(join(app, "node_modules/@ai-sdk/react/node_modules"))).toBe(false);
    expect(dependencies["@ai-sdk/react"].dependencies.ai.version).toBe(dependencies.ai.version);
    npm(["run", "typecheck"], app);
    npm(["run", "build"], app);
    expect(existsSync(join(app, "web/dist/index.html"))).toBe(true);
  },
  300_000,
);

it("packs every file of the templates, and nothing that serving them in place leaves behind", () => {
  const copy = join(folder, "copy");
  for (const part of ["package.json", "templates"]) cpSync(part, join(copy, part), { recursive: true });
  const left = [".env", ".env.local", ".agentserve/data.db", "node_modules/some/index.js"];
  for (const name of left) {
    mkdirSync(join(copy, "templates/starter", name, ".."), { recursive: true });
    writeFileSync(join(copy, "templates/starter", name), "SECRET=1\n");
  }
  const [{ files }] = JSON.parse(npm(["pack", "--ignore-scripts", "--dry-run", "--json"], copy));
  const packed = files.map(({ path }: { path: string }) => path);
  const ours = readdirSync("templates", { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .filter((path) => !/\/\.(env|env\.local|npmignore)$|\/(\.agentserve|node_modules|dist)\//.test(path));
  expect(ours).toEqual(expect.arrayContaining(["templates/starter/.env.example", "templates/minimal/_gitignore"]));
  expect(packed.filter((path: string) => path.startsWith("templates/")).toSorted()).toEqual(ours.toSorted());
});

async function serve(app: string, command: string): Promise<{ child: Child; base: string }> {
  const data = join(app, ".agentserve", `${command}.db`); // the README's execution is new in each
  const args = ["agentserve", command, "--port", "0", "--data", data];
  const child = run("npx", args, { cwd: app, env: userEnv, detached: true });
  // npx passes no SIGKILL on: what it has started must not outlive the test.
  onTestFinished(() => {
    if (child.process.exitCode === null && child.process.signalCode === null)
      process.kill(-child.process.pid!, "SIGKILL");
  });
  const [base] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
  expect(existsSync(data)).toBe(true);
  return { child, base };
}

/** What a README shows in its console blocks: a command after `$ `, and its answer, where … is anything. */
function readExamples(file: string): { line: string; answer: RegExp }[] {
  const blocks = readFileSync(file, "utf8").matchAll(/^```console\n\$ ((?:.*\\\n)*.*)\n([^]*?)\n```$/gm);
  return [...blocks].map(([, line = "", answer = ""]) => {
    const parts = answer.split("…").map((part) => part.replace(/[^\w\s]/g, "\\$&"));
    return { line, answer: new RegExp(`^${parts.join(".*")}$`) };
  });
}

async function stage<T>(name: string, act: () => T | Promise<T>): Promise<T> {
  const began = performance.now();
  const result = await act();
  console.log(`${name}: ${((performance.now() - began) / 1_000).toFixed(1)} s`);
  return result;
}
