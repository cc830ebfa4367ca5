import { mkdtempSync, realpathSync, renameSync, rmSync, symlinkSync, utimesSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { createProject } from "../harness/project.ts";
import { bySize, oneIn } from "../harness/size.ts";
import { config, openDev, refused, served, startDev, workflow, writeFiles, type DevServer } from "./dev-server.ts";

const files = { "agents.config.ts": config, "workflows/w.ts": workflow("w") };
const agent = (id: string): string => `import { defineAgent } from "agentserve";
import { echoModel } from "agentserve/models";
export const it = defineAgent({ id: "${id}", instructions: "", model: echoModel() });
`;
/** A workflow whose purpose is what another module exports. */
const importing = (name: string): string => `import { label } from "${name}";\n${workflow("w", "${label}")}`;
const label = (text: string): string => `export const label = "${text}";\n`;

const remove = ({ folder }: DevServer, name: string): void => rmSync(join(folder, name), { recursive: true });
const agentsOf = async ({ url }: DevServer): Promise<string[]> =>
  ((await (await fetch(`${url}/agents`)).json()) as { data: { id: string }[] }).data.map(({ id }) => id);

describe("a save is never lost", () => {
  it("that is made as soon as it says that it is ready", async () => {
    const dev = await startDev(files, { watched: false });
    await dev.serves({ "workflows/w.ts": workflow("w", "2") });
    expect(await dev.workflows()).toEqual(["w:2"]);
  });

  it("of a file that the version before was the first to import", async () => {
    const dev = await startDev(files);
    for (const at of oneIn(2, [1, 2, 3, 4, 5])) {
      const name = `lib/label-${at}.ts`;
      await dev.serves({ [name]: label("old"), "workflows/w.ts": importing(`../${name}`) });
      dev.save({ [name]: label("new") });
      await expect.poll(() => dev.workflows()).toEqual(["w:new"]);
    }
  });

  it("of many that follow each other closely", async () => {
    const dev = await startDev(files);
    const saves = bySize(10, 20);
    for (let at = 1; at <= saves; at += 1) {
      writeFiles(dev.folder, { "workflows/w.ts": workflow("w", String(at)) });
      await dev.workflows(); // takes some milliseconds, now more, now less
    }
    await expect.poll(() => dev.workflows()).toEqual([`w:${saves}`]);
  });

  it("that the watcher does not report", async () => {
    // Polling once an hour stands for a watcher that misses a change.
    const env = { ...process.env, CHOKIDAR_USEPOLLING: "1", CHOKIDAR_INTERVAL: "3600000" };
    const dev = await startDev(
      { "agents.config.ts": config, "workflows/a.ts": workflow("a") },
      { env, watched: false },
    );
    expect(await dev.workflows()).toEqual(["a:1"]);
    await dev.serves({ "workflows/a.ts": workflow("a", "2") });
    expect(await dev.workflows()).toEqual(["a:2"]);
    await dev.serves({ "workflows/a.ts": workflow("a", "3") });
    expect(await dev.workflows()).toEqual(["a:3"]);
  });

  it("that another one makes while it is loaded", async () => {
    const dev = await startDev(files);
    const slow = `console.log("loading");\nawait new Promise((done) => setTimeout(done, 300));\n`;
    await dev.said(/^loading$/m, () => dev.save({ "workflows/w.ts": slow + workflow("w", "2") }));
    dev.save({ "workflows/w.ts": workflow("w", "3") });
    await expect.poll(() => dev.workflows()).toEqual(["w:3"]);
  });
});

describe("files that come and go", () => {
  it("are served and served no more, in folders and folders of folders", async () => {
    const dev = await startDev(files);
    expect(await dev.serves({ "workflows/v.ts": workflow("v") })).toMatch(/^✓ workflow v added · \d+ ms$/m);
    expect(await dev.serves({ "workflows/deep/er/n.ts": workflow("n") })).toMatch(/^✓ workflow n added/m);
    expect(await dev.serves({ "workflows/deep/er/n.ts": workflow("n", "2") })).toMatch(/^✓ workflow n changed/m);
    expect(await dev.workflows()).toEqual(["n:2", "v:1", "w:1"]);
    await dev.said(served, () => renameSync(join(dev.folder, "workflows/v.ts"), join(dev.folder, "workflows/u.ts")));
    expect(await dev.workflows()).toEqual(["n:2", "v:1", "w:1"]);
    expect(await dev.said(/workflow n removed/, () => remove(dev, "workflows/deep"))).toMatch(/^✓ workflow n removed/m);
    expect(await dev.serves({ "workflows/w.ts": "" })).toMatch(/^✓ workflow w removed/m);
    expect(await dev.workflows()).toEqual(["v:1"]);
  });

  it("may stand in folders that are made later, removed, and made again", async () => {
    const dev = await startDev({ "agents.config.ts": config });
    expect(await dev.serves({ "agents/a.ts": agent("a") })).toMatch(/^✓ agent a added/m);
    expect(await agentsOf(dev)).toEqual(["a"]);
    expect(await dev.said(served, () => remove(dev, "agents"))).toMatch(/^✓ agent a removed/m);
    expect(await agentsOf(dev)).toEqual([]);
    expect(await dev.serves({ "agents/a.ts": agent("b") })).toMatch(/^✓ agent b added/m);
    expect(await agentsOf(dev)).toEqual(["b"]);
    await dev.serves({ "workflows/w.ts": workflow("w") });
    expect(await dev.workflows()).toEqual(["w:1"]);
  });

  it("may stand in a folder that the config names later", async () => {
    const dev = await startDev({ ...files, "flows/x.ts": workflow("x") });
    await dev.serves({ "agents.config.ts": config.replace("server", `workflowsDir: "flows", server`) });
    expect(await dev.workflows()).toEqual(["x:1"]);
    dev.save({ "flows/x.ts": workflow("x", "2") });
    await expect.poll(() => dev.workflows()).toEqual(["x:2"]);
    await dev.serves({ "flows/y.ts": workflow("y") });
    expect(await dev.workflows()).toEqual(["x:2", "y:1"]);
  });

  it("include the config: without it the last good version is served, and any that takes its place after it", async () => {
    const dev = await startDev(files);
    const said = await dev.said(refused, () => remove(dev, "agents.config.ts"));
    expect(said).toMatch(/^error agents\.config\.ts no longer exists$/m);
    expect(await dev.workflows()).toEqual(["w:1"]);
    await dev.serves({ "agents.config.ts": config });
    expect(await dev.workflows()).toEqual(["w:1"]);
  });

  it("include what is imported: relative, deep, and in folders that are not there yet", async () => {
    const dev = await startDev(files);
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

  it("include CommonJS, ES modules, JSON and what stands outside of the project", async () => {
    const outside = createProject({ "label.ts": label("1") });
    const dev = await startDev(files);
    const kinds: [string, string, (text: string) => string][] = [
      [dev.folder, "lib/c.cjs", (text) => `exports.label = "${text}";`],
      [dev.folder, "lib/m.mjs", label],
      [dev.folder, "lib/t.json", (text) => JSON.stringify({ label: text })],
      [outside, "label.ts", label],
    ];
    for (const [folder, name, toText] of kinds) {
      writeFiles(folder, { [name]: toText("1") });
      dev.save({ "workflows/w.ts": importing(join(folder, name)) });
      await expect.poll(() => dev.workflows()).toEqual(["w:1"]);
      await dev.serves({ "workflows/w.ts": `${importing(join(folder, name))}\n` }); // it is watched by now
      writeFiles(folder, { [name]: toText("2") });
      await expect.poll(() => dev.workflows()).toEqual(["w:2"]);
    }
  });
});

describe("however an editor saves", () => {
  it("over it, by a rename, or by a backup that it removes: each is one change", async () => {
    const dev = await startDev(files);
    const path = (name: string): string => join(dev.folder, name);
    for (const name of ["agents.config.ts", "workflows/w.ts"]) {
      const text = (version: string): string =>
        `${name === "workflows/w.ts" ? workflow("w", version) : config}// ${version}\n`;
      const inPlace = await dev.said(served, () => writeFiles(dev.folder, { [name]: text("in place") }));
      const byRename = await dev.said(served, () => dev.save({ [name]: text("renamed") }));
      const byBackup = await dev.said(served, () => {
        renameSync(path(name), path(`${name}~`));
        writeFiles(dev.folder, { [name]: text("backup") });
        rmSync(path(`${name}~`));
      });
      for (const said of [inPlace, byRename, byBackup])
        expect(said).toMatch(/^✓ (agents\.config\.ts|workflow w) changed · \d+ ms\n$/);
    }
    expect(await dev.workflows()).toEqual(["w:backup"]);
  });

  it("its own files, those of git and of packages, and what is no module are nobody's change", async () => {
    const dev = await startDev(files);
    const names = ["w.ts~", ".w.ts.swp", "4913", "#w.ts#", ".#w.ts", "w.ts.tmp", "w.test.ts", "w.d.ts", "_draft.ts"];
    for (const name of names) dev.save({ [`workflows/${name}`]: "(" });
    for (const name of ["agents.config.ts~", ".agents.config.ts.swp", "README.md", "unused.ts"])
      dev.save({ [name]: "(" });
    for (const folder of [".git", ".agentserve", "workflows/node_modules", "workflows/.git"])
      dev.save({ [`${folder}/x.ts`]: "(" });
    // Events keep their order: whatever was seen of these is said by the time that two saves after them are.
    await dev.serves({ "workflows/w.ts": workflow("w", "2") });
    await dev.serves({ "workflows/w.ts": workflow("w", "3") });
    const changed = expect.stringMatching(/^✓ workflow w changed · \d+ ms$/);
    expect(dev.raw().match(/^(✓|error).*/gm)).toEqual([changed, changed]);
  });

  it("a file that is only touched is served as it is", async () => {
    const dev = await startDev(files);
    const later = new Date(Date.now() + 5_000);
    await dev.said(served, () => utimesSync(join(dev.folder, "workflows/w.ts"), later, later));
    expect(await dev.workflows()).toEqual(["w:1"]);
  });
});

describe(".env and .env.local", () => {
  it("are read again; the real environment wins, and what they no longer say is gone", async () => {
    const env = { ...process.env, LABEL_REAL: "real" };
    const text = workflow("w", "${process.env.LABEL},${process.env.LABEL_REAL}");
    const dev = await startDev({ "agents.config.ts": config, "workflows/w.ts": text }, { env });
    const now = async (): Promise<string> => (await dev.workflows()).join();
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
});

describe("wherever the project stands", () => {
  const folders = [
    ["spaces and letters of any script", "a b/ünï/日本 #1 %41"],
    ["brackets", "[a]/{b,c}/d"],
    ["a folder with a dot", ".config/app"],
    ["a folder called node_modules", "x/node_modules/app"],
    ["a folder called .agentserve", ".agentserve/app"],
  ] as const;
  it.each(oneIn(2, folders))("its saves are seen: %s", async (_, name) => {
    const folder = join(createFolder(), name);
    writeFiles(folder, files);
    symlinkSync(join(process.cwd(), "node_modules"), join(folder, "node_modules"));
    const dev = await openDev(folder, { watched: false });
    await expect
      .poll(
        async () => {
          dev.save({ "workflows/w.ts": workflow("w", "2") });
          return dev.workflows();
        },
        { interval: 100 },
      )
      .toEqual(["w:2"]);
    const said = await dev.refuses({ "workflows/w.ts": `\nthrow new Error("no luck");` });
    expect(said).toMatch(/^error workflows\/w\.ts:2:7: no luck$/m);
  });

  it("its saves are seen behind a symbolic link", async () => {
    const folder = createProject(files);
    const link = join(createFolder(), "link");
    symlinkSync(folder, link);
    const dev = await openDev(createFolder(), { args: ["--port", "0", "--config", link], watched: false });
    await expect
      .poll(
        async () => {
          writeFiles(folder, { "workflows/w.ts": workflow("w", "2") });
          return dev.workflows();
        },
        { interval: 100 },
      )
      .toEqual(["w:2"]);
  });

  it("symbolic links to files and folders of it are followed", async () => {
    const folder = createProject(files);
    const far = createProject({ "r.ts": workflow("r"), "folder/d.ts": workflow("d") });
    symlinkSync(join(far, "r.ts"), join(folder, "workflows/r.ts"));
    symlinkSync(join(far, "folder"), join(folder, "workflows/folder"));
    const dev = await openDev(folder);
    expect(await dev.workflows()).toEqual(["d:1", "r:1", "w:1"]);
    await dev.said(/workflow r changed/, () => writeFiles(far, { "r.ts": workflow("r", "2") }));
    await dev.said(/workflow d changed/, () => writeFiles(far, { "folder/d.ts": workflow("d", "2") }));
    expect(await dev.workflows()).toEqual(["d:2", "r:2", "w:1"]);
  });
});

describe("what is only read at the start", () => {
  const define = (server: string, more = ""): string => `import { embedded } from "agentserve";
export default { server: { cors: false, ${server} }, ${more} };
`;
  const env = { ...process.env, PORT: "", HOST: "" };

  /** What is said of a restart after this save. */
  async function restart(dev: DevServer, text: string): Promise<string[]> {
    const from = dev.raw().length;
    await dev.serves({ "agents.config.ts": text });
    await dev.said(/workflow w changed/, () => dev.save({ "workflows/w.ts": workflow("w") }));
    expect(await dev.workflows()).toEqual(["w:1"]);
    return dev.raw().slice(from).match(/^! .*/gm) ?? [];
  }

  it("is said once when it changes, and the server goes on", async () => {
    const dev = await startDev({ ...files, "agents.config.ts": define("port: 0") }, { args: [], env });
    const backend = `backend: embedded({ retention: "1d" })`;
    expect(await restart(dev, define("port: 1"))).toEqual(["! port changed · restart to apply"]);
    expect(await restart(dev, define("port: 1, "))).toEqual([]);
    expect(await restart(dev, define("port: 0"))).toEqual([]);
    expect(await restart(dev, define("port: 0, host: '0.0.0.0'"))).toEqual(["! host changed · restart to apply"]);
    expect(await restart(dev, define("port: 0, https: true"))).toEqual(["! https changed · restart to apply"]);
    expect(await restart(dev, define("port: 0, limits: { bodyBytes: 10 }"))).toEqual([
      "! limits changed · restart to apply",
    ]);
    expect(await restart(dev, define("port: 0", backend))).toEqual(["! backend changed · restart to apply"]);
    expect(await restart(dev, define("port: 0", `${backend}, workflows: []`))).toEqual([]);
    expect(await restart(dev, define("port: 1", backend))).toEqual([expect.stringContaining("port")]);
  });

  it("is not said of what a flag has decided", async () => {
    const dev = await startDev({ ...files, "agents.config.ts": define("") });
    expect(await restart(dev, define("port: 1"))).toEqual([]);
  });
});

/** An empty folder, until the test is over. */
function createFolder(): string {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "agentserve-")));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}
