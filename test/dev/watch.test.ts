import { mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it, onTestFinished } from "vitest";
import { shared } from "../harness/at-end.ts";
import { createProject } from "../harness/project.ts";
import { bySize } from "../harness/size.ts";
import { openDev, refused, served, startDev, workflow, writeFiles, type DevServer } from "./dev-server.ts";

/** A config with more keys. It imports a file with which tests wait for all reports: `settle`. */
const toConfig = (server: string, more = ""): string => `import { defineConfig, embedded } from "agentserve";
import "./lib/mark.ts";
export default defineConfig({ server: { cors: false, ${server} }, ${more} });
`;
const config = toConfig("");
const files = { "agents.config.ts": config, "workflows/w.ts": workflow("w"), "lib/mark.ts": "" };
const agent = (id: string): string => `import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";
export const it = defineAgent({ id: "${id}", instructions: "", model: echoModel() });
`;
/** A workflow whose purpose is exported by another module. */
const importing = (name: string): string => `import { label } from "${name}";\n${workflow("w", "${label}")}`;
const label = (text: string): string => `export const label = "${text}";\n`;

const remove = ({ folder }: DevServer, name: string): void => rmSync(join(folder, name), { recursive: true });
const agentsOf = async ({ url }: DevServer): Promise<string[]> =>
  ((await (await fetch(`${url}/agents`)).json()) as { data: { id: string }[] }).data.map(({ id }) => id);

let marks = 0;
const mark = /^✓ lib\/mark\.ts changed · \d+ ms\n/gm;
/** Resolves once all earlier saves are reported: events keep their order, and one may be on its way during the first save. */
async function settle(dev: DevServer): Promise<void> {
  for (let times = 0; times < 2; times++)
    await dev.said(/lib\/mark\.ts changed.*\n/, () => dev.save({ "lib/mark.ts": `// ${++marks}\n` }));
}

/** Does something, and resolves to all that is reported about it. */
async function reportsOf(dev: DevServer, act: () => unknown): Promise<string> {
  const from = dev.raw().length;
  await act();
  await settle(dev);
  return dev.raw().slice(from).replaceAll(mark, "");
}

describe("saves of one file", () => {
  const get = shared(async () => {
    const dev = await startDev(files, { watched: false });
    return { dev, first: await dev.serves({ "workflows/w.ts": workflow("w", "2") }) };
  });
  beforeEach(() => settle(get().dev));

  it("serves a save that is made as soon as the server is ready", async () => {
    const { dev, first } = get();
    expect(first).toMatch(/^✓ workflow w changed/m);
    expect(await dev.workflows()).toEqual(["w:2"]);
  });

  it("serves a save of a file that the version before was the first to import", async () => {
    const { dev } = get();
    for (const at of [1, 2, 3]) {
      const name = `lib/label-${at}.ts`;
      await dev.serves({ [name]: label("old"), "workflows/w.ts": importing(`../${name}`) });
      dev.save({ [name]: label(`new ${at}`) });
      await expect.poll(() => dev.workflows()).toEqual([`w:new ${at}`]);
    }
  });

  it("serves the last of many saves that follow each other closely", async () => {
    const { dev } = get();
    const saves = bySize(10, 20);
    for (let at = 1; at <= saves; at += 1) {
      writeFiles(dev.folder, { "workflows/w.ts": workflow("w", String(at)) });
      await dev.workflows(); // takes some milliseconds, now more, now less
    }
    await expect.poll(() => dev.workflows()).toEqual([`w:${saves}`]);
  });

  it("serves a save that is made while another one is loaded", async () => {
    const { dev } = get();
    const slow = `console.log("loading");\nawait new Promise((done) => setTimeout(done, 300));\n`;
    await dev.said(/^loading$/m, () => dev.save({ "workflows/w.ts": slow + workflow("w", "2") }));
    dev.save({ "workflows/w.ts": workflow("w", "3") });
    await expect.poll(() => dev.workflows()).toEqual(["w:3"]);
  });

  it("reloads once for a save that the watcher reports late", async () => {
    const { dev } = get();
    // The timer that looks for missed writes fires before the events of a time in which the process was busy.
    const busy = `console.log("busy");\nAtomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_500);\n`;
    await dev.said(/^busy$/m, () => dev.save({ "workflows/w.ts": busy + workflow("w", "4") }));
    await dev.said(/\.env changed/, () => dev.save({ ".env": "LATE=1\n" }));
    const said = await reportsOf(dev, () => dev.serves({ "workflows/w.ts": workflow("w", "5") }));
    expect(said).not.toContain(".env");
  });

  it("reloads once for a save in place, by a rename, or by a backup that is removed", async () => {
    const { dev } = get();
    const path = (name: string): string => join(dev.folder, name);
    for (const name of ["agents.config.ts", "workflows/w.ts"]) {
      const text = (version: string): string =>
        `${name === "workflows/w.ts" ? workflow("w", version) : config}// ${version}\n`;
      const said = await reportsOf(dev, async () => {
        await dev.said(served, () => writeFiles(dev.folder, { [name]: text("in place") }));
        await dev.said(served, () => dev.save({ [name]: text("renamed") }));
        await dev.said(served, () => {
          renameSync(path(name), path(`${name}~`));
          writeFiles(dev.folder, { [name]: text("backup") });
          rmSync(path(`${name}~`));
        });
      });
      expect(said).toMatch(/^(✓ (agents\.config\.ts|workflow w) changed · \d+ ms\n){3}$/);
    }
    expect(await dev.workflows()).toEqual(["w:backup"]);
  });

  it("reloads once for a save in place whose text comes after the file was emptied", async () => {
    const { dev } = get();
    const text = workflow("w", "late text");
    const said = await reportsOf(dev, () =>
      dev.said(served, () => {
        writeFiles(dev.folder, { "workflows/w.ts": "" });
        setTimeout(() => writeFiles(dev.folder, { "workflows/w.ts": text }), 100); // longer than the quiet moment after a write
      }),
    );
    expect(said).toMatch(/^✓ workflow w changed · \d+ ms\n$/);
  });

  it("does not reload for files of editors, of git, of packages, and for files that are not modules", async () => {
    const { dev } = get();
    const names = ["w.ts~", ".w.ts.swp", "4913", "#w.ts#", ".#w.ts", "w.ts.tmp", "w.test.ts", "w.d.ts", "_draft.ts"];
    const others = ["agents.config.ts~", ".agents.config.ts.swp", "README.md", "unused.ts"];
    const folders = [".git", ".agentserve", "workflows/node_modules", "workflows/.git"];
    const said = await reportsOf(dev, () => {
      for (const name of names) dev.save({ [`workflows/${name}`]: "(" });
      for (const name of others) dev.save({ [name]: "(" });
      for (const folder of folders) dev.save({ [`${folder}/x.ts`]: "(" });
    });
    expect(said).toBe("");
  });

  it("reloads for a file that is only touched", async () => {
    const { dev } = get();
    const before = await dev.workflows();
    const later = new Date(Date.now() + 5_000);
    await dev.said(served, () => utimesSync(join(dev.folder, "workflows/w.ts"), later, later));
    expect(await dev.workflows()).toEqual(before);
  });
});

it("serves saves that the watcher does not report", async () => {
  // Polling once an hour stands for a watcher that misses a change.
  const env = { ...process.env, CHOKIDAR_USEPOLLING: "1", CHOKIDAR_INTERVAL: "3600000" };
  const dev = await startDev(files, { env, watched: false });
  for (const purpose of ["2", "3"]) {
    await dev.serves({ "workflows/w.ts": workflow("w", purpose) });
    expect(await dev.workflows()).toEqual([`w:${purpose}`]);
  }
});

describe("files that come and go", () => {
  const text = workflow("w", "${process.env.LABEL},${process.env.LABEL_REAL}");
  const env = { ...process.env, LABEL_REAL: "real" };
  const get = shared(() => startDev(files, { env }));
  beforeEach(async () => {
    await settle(get());
    get().save({ "workflows/w.ts": workflow("w") });
    await settle(get());
  });

  it("serves files of folders and their folders, until they are removed", async () => {
    const dev = get();
    expect(await dev.serves({ "workflows/v.ts": workflow("v") })).toMatch(/^✓ workflow v added · \d+ ms$/m);
    expect(await dev.serves({ "workflows/deep/er/n.ts": workflow("n") })).toMatch(/^✓ workflow n added/m);
    expect(await dev.serves({ "workflows/deep/er/n.ts": workflow("n", "2") })).toMatch(/^✓ workflow n changed/m);
    expect(await dev.workflows()).toEqual(["n:2", "v:1", "w:1"]);
    const rename = () => renameSync(join(dev.folder, "workflows/v.ts"), join(dev.folder, "workflows/u.ts"));
    await reportsOf(dev, () => dev.said(served, rename));
    expect(await dev.workflows()).toEqual(["n:2", "v:1", "w:1"]);
    expect(await dev.said(/workflow n removed/, () => remove(dev, "workflows/deep"))).toMatch(/^✓ workflow n removed/m);
    expect(await dev.serves({ "workflows/w.ts": "" })).toMatch(/^✓ workflow w removed/m);
    expect(await dev.workflows()).toEqual(["v:1"]);
    await dev.said(/workflow v removed/, () => remove(dev, "workflows/u.ts"));
  });

  it("serves folders that are made later, removed, and made again", async () => {
    const dev = get();
    expect(await dev.serves({ "agents/a.ts": agent("a") })).toMatch(/^✓ agent a added/m);
    expect(await agentsOf(dev)).toEqual(["a"]);
    expect(await dev.said(served, () => remove(dev, "agents"))).toMatch(/^✓ agent a removed/m);
    expect(await agentsOf(dev)).toEqual([]);
    expect(await dev.serves({ "agents/a.ts": agent("b") })).toMatch(/^✓ agent b added/m);
    expect(await agentsOf(dev)).toEqual(["b"]);
    await dev.said(served, () => remove(dev, "workflows"));
    expect(await dev.workflows()).toEqual([]);
  });

  it("serves a folder that the config names later", async () => {
    const dev = get();
    dev.save({ "flows/x.ts": workflow("x") });
    await dev.serves({ "agents.config.ts": toConfig("", `workflowsDir: "flows"`) });
    expect(await dev.workflows()).toEqual(["x:1"]);
    dev.save({ "flows/x.ts": workflow("x", "2") });
    await expect.poll(() => dev.workflows()).toEqual(["x:2"]);
    await settle(dev);
    await dev.serves({ "flows/y.ts": workflow("y") });
    expect(await dev.workflows()).toEqual(["x:2", "y:1"]);
    await dev.serves({ "agents.config.ts": config });
  });

  it("serves the last good version while the config is missing", async () => {
    const dev = get();
    const said = await dev.said(refused, () => remove(dev, "agents.config.ts"));
    expect(said).toMatch(/^error agents\.config\.ts no longer exists$/m);
    expect(await dev.workflows()).toEqual(["w:1"]);
    await dev.serves({ "agents.config.ts": config });
    expect(await dev.workflows()).toEqual(["w:1"]);
  });

  it("loads again when an imported file is created: relative, deep, and in folders that do not exist yet", async () => {
    const dev = get();
    for (const [at, name] of ["./label.ts", "../far/away/label.ts", "../folder"].entries()) {
      expect(await dev.refuses({ "workflows/w.ts": importing(name) })).toContain(`Cannot find module '${name}'`);
      const file = name === "../folder" ? "folder/index.ts" : join("workflows", name);
      dev.save({ [file]: label(String(at)) });
      await expect.poll(() => dev.workflows()).toEqual([`w:${at}`]);
      await dev.said(refused, () => remove(dev, file));
      expect(await dev.workflows()).toEqual([`w:${at}`]);
      dev.save({ [file]: label(`${at} again`) });
      await expect.poll(() => dev.workflows()).toEqual([`w:${at} again`]);
    }
  });

  it("watches imported CommonJS, ES modules, JSON, and files outside of the project", async () => {
    const dev = get();
    const outside = createProject({ "label.ts": label("1") });
    const kinds: [string, string, (text: string) => string][] = [
      [dev.folder, "lib/c.cjs", (value) => `exports.label = "${value}";`],
      [dev.folder, "lib/m.mjs", label],
      [dev.folder, "lib/t.json", (value) => JSON.stringify({ label: value })],
      [outside, "label.ts", label],
    ];
    for (const [folder, name, toText] of kinds) {
      writeFiles(folder, { [name]: toText(`${name} 1`) });
      dev.save({ "workflows/w.ts": importing(join(folder, name)) });
      await expect.poll(() => dev.workflows()).toEqual([`w:${name} 1`]);
      await settle(dev); // it is watched by now
      writeFiles(folder, { [name]: toText(`${name} 2`) });
      await expect.poll(() => dev.workflows()).toEqual([`w:${name} 2`]);
    }
    await settle(dev);
    await dev.serves({ "workflows/w.ts": workflow("w") });
  });

  it("reads .env and .env.local again: the real environment wins, and removed variables are unset", async () => {
    const dev = get();
    const now = async (): Promise<string> => (await dev.workflows()).join();
    await dev.serves({ "workflows/w.ts": text });
    expect(await dev.serves({ ".env": "LABEL=env\nLABEL_REAL=env\n" })).toMatch(/^✓ \.env /m);
    expect(await now()).toBe("w:env,real");
    await dev.serves({ ".env.local": "LABEL=local\nLABEL_REAL=local\n" });
    expect(await now()).toBe("w:local,real");
    await dev.serves({ ".env": "LABEL=env 2\n" });
    expect(await now()).toBe("w:local,real");
    expect(await dev.said(served, () => remove(dev, ".env.local"))).toMatch(/^✓ \.env\.local removed/m);
    expect(await now()).toBe("w:env 2,real");
    await dev.said(served, () => remove(dev, ".env"));
    expect(await now()).toBe("w:undefined,real");
  });

  it("prints no restart note for a key that a flag has decided", async () => {
    expect(await restart(get(), toConfig("port: 1"))).toEqual([]);
  });
});

it("sees saves whatever the folders above the project are called", async () => {
  const folder = join(createFolder(), "a b/ünï/日本 #1 %41/[a]/{b,c}/.config/x/node_modules/.agentserve/app");
  writeFiles(folder, files);
  symlinkSync(join(process.cwd(), "node_modules"), join(folder, "node_modules"));
  const dev = await openDev(folder);
  await dev.serves({ "workflows/w.ts": workflow("w", "2") });
  expect(await dev.workflows()).toEqual(["w:2"]);
  const said = await dev.refuses({ "workflows/w.ts": `\nthrow new Error("no luck");` });
  expect(said).toMatch(/^error workflows\/w\.ts:2:7: no luck$/m);
});

it("sees saves behind symbolic links: of the project, its folders, and its files", async () => {
  const folder = createProject(files);
  const far = createProject({ "r.ts": workflow("r"), "folder/d.ts": workflow("d") });
  const link = join(createFolder(), "link");
  symlinkSync(folder, link);
  symlinkSync(join(far, "r.ts"), join(folder, "workflows/r.ts"));
  symlinkSync(join(far, "folder"), join(folder, "workflows/folder"));
  const dev = await openDev(createFolder(), { args: ["--port", "0", "--config", link], watched: false });
  expect(await dev.workflows()).toEqual(["d:1", "r:1", "w:1"]);
  await dev.said(/workflow r changed/, () => writeFiles(far, { "r.ts": workflow("r", "2") }));
  await dev.said(/workflow d changed/, () => writeFiles(far, { "folder/d.ts": workflow("d", "2") }));
  await dev.said(/workflow w changed/, () => writeFiles(folder, { "workflows/w.ts": workflow("w", "2") }));
  expect(await dev.workflows()).toEqual(["d:2", "r:2", "w:2"]);
});

/** Saves a config, and resolves to the notes about a restart. */
async function restart(dev: DevServer, text: string): Promise<string[]> {
  const said = await reportsOf(dev, () => dev.serves({ "agents.config.ts": text }));
  expect(await dev.workflows()).toEqual(["w:1"]);
  return said.match(/^! .*/gm) ?? [];
}

it("prints a note once when a key changes that is read at the start, and keeps serving", async () => {
  const env = { ...process.env, PORT: "", HOST: "" };
  const dev = await startDev({ ...files, "agents.config.ts": toConfig("port: 0") }, { args: [], env });
  const backend = `backend: embedded({ retention: "1d" })`;
  expect(await restart(dev, toConfig("port: 1"))).toEqual(["! port changed · restart to apply"]);
  expect(await restart(dev, toConfig("port: 1, "))).toEqual([]);
  expect(await restart(dev, toConfig("port: 0"))).toEqual([]);
  expect(await restart(dev, toConfig("port: 0, host: '0.0.0.0'"))).toEqual(["! host changed · restart to apply"]);
  expect(await restart(dev, toConfig("port: 0, https: true"))).toEqual(["! https changed · restart to apply"]);
  const limits = toConfig("port: 0, limits: { bodyBytes: 10 }");
  expect(await restart(dev, limits)).toEqual(["! limits changed · restart to apply"]);
  expect(await restart(dev, toConfig("port: 0", backend))).toEqual(["! backend changed · restart to apply"]);
  expect(await restart(dev, toConfig("port: 0", `${backend}, workflows: []`))).toEqual([]);
  expect(await restart(dev, toConfig("port: 1", backend))).toEqual([expect.stringContaining("port")]);
});

/** An empty folder, until the test is over. */
function createFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentserve-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
