import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createProject } from "../harness/project.ts";
import { eventually } from "../harness/waiting.ts";
import {
  config,
  openDev,
  refused,
  served,
  startDev,
  workflow,
  writeFiles,
  type DevServer,
  type Files,
} from "./dev-server.ts";

/** What is saved, and what must be said of it. */
interface BadSave {
  files: Files;
  /** How the line `error …` goes on. */
  says: string | RegExp;
  /** The line that the frame points at, as the file has it. */
  shows?: [line: number, text: string];
  hint?: string;
  /** What mends it besides the good files: files that nobody wants any more. */
  removes?: string[];
}

const define = (body: string): string => `import { defineConfig, embedded, jwtAuth } from "agentserve";
export default defineConfig({
  server: { cors: false },
  ${body}
});
`;
const w = `import { defineWorkflow } from "agentserve";
import { label } from "../lib/label.ts";
import data from "../lib/data.json";
export const it = defineWorkflow({ id: "w", purpose: label, name: data.name }).andThen({ id: "s", execute: () => 1 });
`;
const good = {
  "agents.config.ts": define(""),
  "workflows/w.ts": w,
  "lib/label.ts": `import "./deep.ts";\nexport const label = "1";\n`,
  "lib/deep.ts": "export const deep = 1;\n",
  "lib/data.json": `{ "name": "w" }\n`,
};
const inConfig = (body: string): Files => ({ "agents.config.ts": define(body) });
const beforeConfig = (text: string): Files => ({ "agents.config.ts": `${text}\n${good["agents.config.ts"]}` });
const inWorkflow = (text: string): Files => ({ "workflows/w.ts": w + text });
const inDeep = (text: string): Files => ({ "lib/deep.ts": text });

const kinds: Record<string, Record<string, BadSave>> = {
  "a syntax error": {
    "in the config": {
      files: inConfig("workflows: [[,"),
      says: /^agents\.config\.ts:5:1: Unexpected token/,
      shows: [5, "});"],
    },
    "in a workflow's file": {
      files: inWorkflow("\nexport const a = (;\n"),
      says: "workflows/w.ts:6:19: Unexpected token",
      shows: [6, "export const a = (;"],
    },
    "in what an import imports": {
      files: inDeep("\n\nconst const;\n"),
      says: /^lib\/deep\.ts:3:7: /,
      shows: [3, "const const;"],
    },
    "in JSON": {
      files: { "lib/data.json": `{\n  "a": 1,\n  b\n}\n` },
      says: /^lib\/data\.json:3:3: /,
      shows: [3, "  b"],
    },
    "in a file that is half written": {
      files: { "workflows/w.ts": w.slice(0, w.indexOf("defineWorkflow({ id") + 20) },
      says: /^workflows\/w\.ts:4:\d+: Unexpected token/,
      shows: [4, "export const it = defineWorkflow({ id:"],
    },
    "in a file that is no text": {
      files: { "workflows/w.ts": Uint8Array.from({ length: 400 }, (_, at) => (at * 37 + 11) % 256) },
      says: /^workflows\/w\.ts:1:\d+: /,
    },
  },
  "a module that throws": {
    "an Error": {
      files: inDeep(`\nthrow new Error("no luck");\n`),
      says: "lib/deep.ts:2:7: no luck",
      shows: [2, `throw new Error("no luck");`],
    },
    "an Error of several lines": {
      files: inDeep(`\nthrow new Error("no luck\\nat all");\n`),
      says: /^lib\/deep\.ts:2:7: no luck/,
      shows: [2, `throw new Error("no luck\\nat all");`],
    },
    "an Error without a word": {
      files: inDeep(`throw new RangeError();\n`),
      says: /^lib\/deep\.ts:1:\d+: RangeError$/,
      shows: [1, "throw new RangeError();"],
    },
    "what the language throws": {
      files: inDeep("\n\nconst nothing: any = undefined;\nnothing.at.all;\n"),
      says: /^lib\/deep\.ts:4:\d+: Cannot read properties of undefined/,
      shows: [4, "nothing.at.all;"],
    },
    "a rejection": {
      files: inDeep(`\n\nawait Promise.reject(new Error("too late"));\n`),
      says: /^lib\/deep\.ts:3:\d+: too late$/,
      shows: [3, `await Promise.reject(new Error("too late"));`],
    },
    "a string": { files: inDeep(`throw "a string";`), says: /\.ts: threw ["']a string["']/ },
    null: { files: inDeep(`throw null;`), says: /\.ts: threw null/ },
    undefined: { files: inDeep(`throw undefined;`), says: /\.ts: threw undefined/ },
    "a BigInt": { files: inDeep(`throw 10n;`), says: /^(workflows\/w|lib\/deep)\.ts: threw 10/ },
    "a circle": {
      files: inDeep(`const a: any = {};\na.a = a;\nthrow a;`),
      says: /^(workflows\/w|lib\/deep)\.ts: threw /,
    },
    "an Error whose stack is no text": {
      files: inDeep(`throw Object.assign(new Error("odd"), { stack: 7 });`),
      says: /^(workflows\/w|lib\/deep)\.ts.*: odd$/,
    },
    "an Error whose message is no text": {
      files: inDeep(`throw Object.assign(new Error("odd"), { message: 7 });`),
      says: /^(workflows\/w|lib\/deep)\.ts.*: 7$/,
    },
    "what two modules that import each other do not have yet": {
      files: inDeep(`import { it } from "../workflows/w.ts";\nexport const id = it.id;\n`),
      says: /^lib\/deep\.ts:2:\d+: /,
      shows: [2, "export const id = it.id;"],
    },
  },
  "a mistake in the config": {
    "an unknown key": {
      files: inConfig("agentz: [],"),
      says: "agents.config.ts: agentz: unknown key; did you mean agents?",
      shows: [4, "  agentz: [],"],
    },
    "several unknown keys": {
      files: inConfig("agentz: [],\n  workflowz: [],"),
      says: "agents.config.ts: agentz: unknown key; did you mean agents?",
      shows: [4, "  agentz: [],"],
    },
    "a wrong type": {
      files: inConfig("workflowsDir: 7,"),
      says: "agents.config.ts: workflowsDir: expected a folder path, found 7",
      shows: [4, "  workflowsDir: 7,"],
    },
    "a folder that is not there": { files: inConfig(`agentsDir: "bots",`), says: "agentsDir: bots is not a folder" },
    "no default export": {
      files: { "agents.config.ts": "export const config = {};\n" },
      says: "agents.config.ts: no default export",
      hint: "add: export default defineConfig({ … })",
    },
    "an empty file": {
      files: { "agents.config.ts": "" },
      says: "agents.config.ts: no default export",
      hint: "add: export default defineConfig({ … })",
    },
    "a promise that rejects": {
      files: { "agents.config.ts": `\nexport default Promise.reject(new Error("too late"));\n` },
      says: /^agents\.config\.ts:2:\d+: too late$/,
      shows: [2, `export default Promise.reject(new Error("too late"));`],
    },
    "a secret that is none": {
      files: inConfig(`auth: jwtAuth({ secret: "" }),`),
      says: /^agents\.config\.ts:4:\d+: jwtAuth\(\): secret: expected a non-empty string/,
      shows: [4, `  auth: jwtAuth({ secret: "" }),`],
    },
    "a public route without a method": {
      files: inConfig(`auth: jwtAuth({ secret: "x".repeat(32), publicRoutes: ["/health"] }),`),
      says: /^agents\.config\.ts:4:\d+: jwtAuth\(\): publicRoutes\.0: expected a method and a path/,
    },
    "a provider that is none": {
      files: inConfig(`auth: { type: "mine" } as never,`),
      says: "agents.config.ts: auth.verifyToken: expected a function, found nothing",
    },
    "a backend that cannot be": {
      files: inConfig(`backend: embedded({ retention: "long" as never }),`),
      says: /^agents\.config\.ts:4:\d+: embedded\(\{ retention \}\): expected false or a duration/,
    },
    "configureApp that throws": {
      files: inConfig(`configureApp() {\n    throw new Error("no app");\n  },`),
      says: /configureApp: no app$/,
      shows: [5, `    throw new Error("no app");`],
    },
    "configureApp that is async": {
      files: inConfig(`async configureApp() {} ,`),
      says: /configureApp: must be synchronous, but it returned a promise/,
      hint: "use a top-level await in the config file",
    },
    "a route that a built-in one hides": {
      files: inConfig(`configureApp: (app) => void app.get("/workflows", () => 1),`),
      says: /configureApp: GET \/workflows is unreachable: the built-in route GET \/workflows matches first$/,
    },
  },
  "a mistake in a workflow": {
    "an id twice in one file": {
      files: inWorkflow(`export const two = defineWorkflow({ id: "w" });\n`),
      says: "Two workflows have the id w: both in workflows/w.ts",
    },
    "an id twice in two files": {
      files: { "workflows/v.ts": `\n${workflow("w")}` },
      says: "Two workflows have the id w: in workflows/v.ts and in workflows/w.ts",
      removes: ["workflows/v.ts"],
    },
    "a step's id twice": {
      files: inWorkflow(
        `export const x = it\n  .andThen({ id: "a", execute: () => 1 })\n  .andThen({ id: "a", execute: () => 1 });\n`,
      ),
      says: /^workflows\/w\.ts:7:\d+: Workflow w: two steps have the id a$/,
      shows: [7, `  .andThen({ id: "a", execute: () => 1 });`],
    },
    "an id that is none": {
      files: inWorkflow(`export const x = defineWorkflow({ id: "a b" });\n`),
      says: /^workflows\/w\.ts:5:\d+: defineWorkflow: id: expected 1 to 128 .*, found "a b"/,
      shows: [5, `export const x = defineWorkflow({ id: "a b" });`],
    },
  },
  "a module that is missing": {
    "of the project": {
      files: { "workflows/w.ts": `import "../lib/none.ts";\n${w}` },
      says: /^workflows\/w\.ts(:1(:\d+)?)?: Cannot find module '\.\.\/lib\/none\.ts'$/,
      shows: [1, `import "../lib/none.ts";`],
    },
    "a package": {
      files: { "workflows/w.ts": `import "not-installed/sub";\n${w}` },
      says: /^workflows\/w\.ts(:1(:\d+)?)?: Cannot find module 'not-installed\/sub'$/,
      hint: "npm install not-installed",
    },
    "a package of a scope": {
      files: { "workflows/w.ts": `import "@not/installed/sub";\n${w}` },
      says: /^workflows\/w\.ts(:1(:\d+)?)?: Cannot find module '@not\/installed\/sub'$/,
      hint: "npm install @not/installed",
    },
  },
  "a file that the code does not find": {
    "a program": {
      files: beforeConfig(`import { execFileSync } from "node:child_process";\nexecFileSync("no-such-program");`),
      says: /^agents\.config\.ts:2:\d+: spawnSync no-such-program ENOENT$/,
    },
    "a text": {
      files: beforeConfig(`import { readFileSync } from "node:fs";\nreadFileSync("./prompt.md");`),
      says: /^agents\.config\.ts:2:\d+: ENOENT: no such file/,
    },
    "JSON, in words of its own": {
      files: beforeConfig(`throw new Error("/etc/settings.json: key model is missing");`),
      says: /^agents\.config\.ts:1:\d+: \/etc\/settings\.json: key model/,
    },
  },
};

it.each(Object.entries(kinds))(
  "reports %s with its place, and serves the last good version until it is fixed",
  async (_, saves) => {
    const dev = await startDev(good);
    for (const [at, [title, save]] of Object.entries(saves).entries()) {
      await expectRefused(dev, title, save);
      await expectMended(dev, title, { ...save, label: String(at + 2) });
    }
  },
);

describe("onDispose", () => {
  const versioned = (
    version: number,
    { dispose = "", body = "" } = {},
  ): string => `import { appendFileSync } from "node:fs";
export default {
  ${body}
  onDispose() {
    appendFileSync("disposed.txt", "${version} ");
    ${dispose}
  },
};
`;
  const disposed = ({ folder }: DevServer): string =>
    existsSync(join(folder, "disposed.txt")) ? readFileSync(join(folder, "disposed.txt"), "utf8") : "";

  it("calls onDispose once for each replaced version, and for the last one at the end, whether it throws or not", async () => {
    const dev = await startDev({ "agents.config.ts": versioned(1, { dispose: `throw new Error("no");` }) });
    await dev.serves({ "agents.config.ts": versioned(2, { dispose: `return Promise.reject(new Error("no"));` }) });
    await expect.poll(() => disposed(dev)).toBe("1 ");
    await dev.serves({ "agents.config.ts": versioned(3, { dispose: "throw null;" }) });
    await expect.poll(() => disposed(dev)).toBe("1 2 ");
    await dev.serves({ "agents.config.ts": versioned(4) });
    await expect.poll(() => disposed(dev)).toBe("1 2 3 ");
    dev.child.process.kill("SIGTERM");
    expect((await dev.child.ended).code).toBe(0);
    expect(disposed(dev)).toBe("1 2 3 4 ");
  });

  it.each<[string, string]>([
    ["configureApp throws", `configureApp() { throw new Error("no app"); },`],
    ["its workflows folder does not exist", `workflowsDir: "none",`],
  ])("calls onDispose of a version that is not served because %s", async (_, body) => {
    const dev = await startDev({ "agents.config.ts": versioned(1) });
    await dev.refuses({ "agents.config.ts": versioned(2, { body, dispose: `throw new Error("no");` }) });
    expect(disposed(dev)).toBe("2 ");
    await dev.serves({ "agents.config.ts": versioned(3) });
    await expect.poll(() => disposed(dev)).toBe("2 1 ");
  });

  it("serves saves although an onDispose never ends", async () => {
    const dispose = "return new Promise(() => {});";
    const dev = await startDev({ "agents.config.ts": versioned(1, { dispose }) });
    await dev.serves({ "agents.config.ts": versioned(2, { dispose }) });
    await dev.refuses({
      "agents.config.ts": versioned(3, { dispose, body: `configureApp() { throw new Error("no"); },` }),
    });
    await dev.serves({ "agents.config.ts": versioned(4) });
    // A save that is seen as two makes two versions.
    await expect.poll(() => disposed(dev)).toMatch(/^1 (2 )*(3 )+(2 )+$/);
  });
});

describe("a module that waits for ever at its top", () => {
  const files = { "agents.config.ts": config, "workflows/w.ts": workflow("w") };

  it("serves the last good version and ends at SIGTERM while a module waits for ever at its top", async () => {
    const dev = await startDev(files);
    const waiting = `console.log("waiting");\nawait new Promise(() => {});\n`;
    await dev.said(/^waiting$/m, () => dev.save({ "workflows/w.ts": waiting + workflow("w", "2") }));
    expect(await dev.workflows()).toEqual(["w:1"]);
    dev.child.process.kill("SIGTERM");
    expect((await dev.child.ended).code).toBe(0);
  });
});

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log("skipped: a file that may not be read (only root can become somebody else for that)");
describe.runIf(isRoot)("a file that may not be read", () => {
  it("reports a file that may not be read, and serves it once it may be", async () => {
    const folder = createProject({ "agents.config.ts": config, "workflows/w.ts": workflow("w") });
    chmodSync(folder, 0o755);
    const dev = await openDev(folder, { uid: 65_534, gid: 65_534 });
    const file = join(folder, "workflows/w.ts");
    const said = await dev.said(refused, () => {
      chmodSync(file, 0o000);
      writeFiles(folder, { "workflows/w.ts": workflow("w", "2") });
    });
    expect(said).toMatch(/^error workflows\/w\.ts: .*permission denied/m);
    expect(await dev.workflows()).toEqual(["w:1"]);
    await dev.said(served, () => {
      chmodSync(file, 0o644);
      writeFiles(folder, { "workflows/w.ts": workflow("w", "3") });
    });
    // The second version may be served first: it can be read a moment before the third is written.
    await eventually(async () => expect(await dev.workflows()).toEqual(["w:3"]));
  });
});

/** Saves it, and asks for the last good version meanwhile and afterwards. */
async function expectRefused(dev: DevServer, title: string, { files, says, shows, hint }: BadSave): Promise<void> {
  const before = await dev.workflows();
  const over = new AbortController();
  const saying = dev.refuses(files).finally(() => over.abort());
  while (!over.signal.aborted) expect.soft(await dev.workflows(), title).toEqual(before);
  // A save that is seen as two is said twice.
  const lines = [...new Set((await saying).split("\n"))];
  expect.soft(await dev.workflows(), title).toEqual(before);
  const errors = lines.filter((line) => line.startsWith("error "));
  expect.soft(errors, title).toHaveLength(1);
  const error = errors[0]!.slice("error ".length);
  if (typeof says === "string") expect.soft(error.slice(0, says.length), title).toBe(says);
  else expect.soft(error, title).toMatch(says);
  const marked = lines.filter((line) => line.startsWith("> "));
  if (shows) expect.soft(marked, title).toEqual([`> ${shows[0]} | ${shows[1]}`]);
  expect
    .soft(
      lines.filter((line) => line.startsWith("hint ")),
      title,
    )
    .toEqual(hint === undefined ? [] : [`hint  ${hint}`]);
  expect
    .soft(
      lines.filter((line) => /^ +at /.test(line)),
      title,
    )
    .toEqual([]);
  expect.soft(await isShown(dev, error), title).toBe(true);
}

/** The landing page says what the terminal says. A browser gets the console instead. */
async function isShown(dev: DevServer, text: string): Promise<boolean> {
  const page = await (await fetch(dev.url)).text();
  return page.replace(/&#(\d+);/g, (_, code) => String.fromCodePoint(Number(code))).includes(text);
}

/** Saves what is good again: whatever is served then is new, and the first answer has it. */
async function expectMended(
  dev: DevServer,
  title: string,
  { files, removes = [], label }: BadSave & { label: string },
): Promise<void> {
  for (const name of removes) rmSync(join(dev.folder, name));
  const again = Object.keys(files)
    .filter((name) => name in good)
    .map((name) => [name, good[name as keyof typeof good]]);
  // The label comes first: once all of it can be loaded, it is there.
  const said = await dev.serves({
    "lib/label.ts": good["lib/label.ts"].replace("1", label),
    ...Object.fromEntries(again),
  });
  expect.soft(said, title).toMatch(/^✓ .* · \d+ ms$/m);
  expect.soft(await dev.workflows(), title).toEqual([`w:${label}`]);
  expect.soft(await isShown(dev, "The last change could not be loaded"), title).toBe(false);
}

it("prints an error of a save in several steps once, and says of a later save that the error is the same", async () => {
  const dev = await startDev(good);
  const bad = `${good["workflows/w.ts"]}throw new Error("boom");\n`;
  const file = join(dev.folder, "workflows/w.ts");
  const first = await dev.said(/boom[^]*still serving the last good version\n/, () => writeFileSync(file, bad));
  const again = await dev.said(/same error/, () => writeFileSync(file, bad));
  expect([first, again].join("").match(/^error /gm)).toHaveLength(1);
  expect(again).toMatch(/^ {6}same error · still serving the last good version\n$/m);
  const other = await dev.refuses({ "workflows/w.ts": bad.replace("boom", "another") });
  expect(other).toContain("another");
  await dev.serves(good);
  expect(await dev.refuses({ "workflows/w.ts": bad })).toContain("boom"); // in between it was good
});
