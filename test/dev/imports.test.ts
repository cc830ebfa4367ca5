import { execFileSync } from "node:child_process";
import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { createProject } from "../harness/project.ts";
import { openDev, refused, served, startDev, workflow } from "./dev-server.ts";

const toConfig = (route: string, imports = ""): string => `import { defineConfig } from "agentserve";
${imports}
export default defineConfig({ server: { cors: false }, configureApp: (app) => void app.get("/said", ${route}) });
`;
const lazy = toConfig(`async () => (await import("./lib/late.ts")).said`);
const late = (said: string): string => `export const said: string = "${said}";\n`;

describe("imports of a project", () => {
  it("dev watches a module that a request was the first to import", async () => {
    const dev = await startDev({ "agents.config.ts": lazy, "lib/late.ts": late("one") });
    const ask = async () => (await fetch(`${dev.url}/said`)).text();
    expect(await ask()).toBe("one");
    // Once every half second it looks for such files. One saved before that is seen then.
    expect(await dev.said(served, () => dev.save({ "lib/late.ts": late("two") }))).toContain("lib/late.ts changed");
    expect(await ask()).toBe("two");
  });

  it("dev serves a save that is made after the file was read and before it is watched", async () => {
    const dev = await startDev({ "agents.config.ts": lazy, "lib/late.ts": late("one") }, { watched: false });
    dev.save({ "agents.config.ts": lazy.replace("/said", "/later") });
    await dev.child.waitFor(/agents\.config\.ts changed/);
    expect((await fetch(`${dev.url}/later`)).status).toBe(200);
  });

  it("dev imports what Node itself would import, CommonJS included, and reads it anew after a save", async () => {
    const modules = {
      "lib/a.cjs": "module.exports = { n: 1 };",
      "lib/b.cjs": "module.exports = function two() {}; module.exports.n = 2;",
      "lib/c.cjs": "exports.__esModule = true; exports.default = 3; exports.n = 3;",
      "lib/d.mjs": "export default 4; export const n = 4;",
      "lib/g.cjs": "exports.n = 7;",
      "lib/h.cjs": "module.exports = require('./g.cjs');",
      "lib/i.cjs": "module.exports = { ...require('./g.cjs'), own: 8 };",
      "lib/j.cjs": "module.exports = { n: require('./g.cjs').n };",
      "lib/k.cjs": "var g = require('./g.cjs'); for (var p in g) exports[p] = g[p]; exports.own = 9;",
      "plain/e.js": "module.exports = { n: 5 };",
      "plain/package.json": "{}",
      "modern/f.js": "export default 6; export const n = await Promise.resolve(6);",
      "modern/package.json": '{"type":"module"}',
    };
    const names = Object.keys(modules).filter((name) => !name.endsWith(".json"));
    const imports = names.map((name, at) => `import d${at} from "./${name}"; import * as s${at} from "./${name}";`);
    const shown = names.map(
      (_, at) => `[typeof d${at}, d${at}, s${at}.n, Object.keys(s${at}).filter((k) => k !== "module.exports").sort()]`,
    );
    const folder = createProject({
      ...modules,
      "agents.config.ts": toConfig(`() => JSON.stringify([${shown.join(", ")}])`, imports.join("\n")),
      "node.mjs": `${imports.join("\n")}\nconsole.log(JSON.stringify([${shown.join(", ")}]));`,
    });
    const dev = await openDev(folder);
    const ask = async () => (await fetch(`${dev.url}/said`)).text();
    const byNode = () => execFileSync(process.execPath, [join(folder, "node.mjs")], { encoding: "utf8" }).trim();
    expect(await ask()).toBe(byNode());
    for (const name of names) {
      const text = readFileSync(join(folder, name), "utf8").replaceAll(/\b(\d)\b/g, "1$1");
      await dev.serves({ [name]: text });
      expect([name, await ask()]).toEqual([name, byNode()]);
    }
  });

  it("dev loads a missing import when it is created, and does not reload for other files beside it", async () => {
    const folder = createProject({ "agents.config.ts": lazy, "lib/late.ts": late("one"), "notes/a.txt": "" });
    const dev = await openDev(folder);
    const before = dev.raw().length;
    await dev.refuses({ "agents.config.ts": `import { q } from "./notes/q";\n${toConfig("() => q")}` });
    for (let n = 0; n < 3; n++) appendFileSync(join(folder, "notes/a.txt"), "more\n"); // as a log of its own would be
    writeFileSync(join(folder, "dev.log"), "more\n");
    await dev.said(served, () => dev.save({ "notes/q.ts": "export const q = 'here';\n" }));
    expect(await (await fetch(`${dev.url}/said`)).text()).toBe("here");
    expect(
      dev
        .raw()
        .slice(before)
        .match(/^error /gm),
    ).toHaveLength(1);
  });

  it("dev serves an import again that was moved away and back with its folder", async () => {
    const config = toConfig("() => String(n)", 'import { n } from "./workflows/sub/a.ts";');
    const folder = createProject({ "agents.config.ts": config, "workflows/sub/a.ts": "export const n: number = 1;" });
    const dev = await openDev(folder);
    await dev.said(refused, () => renameSync(join(folder, "workflows/sub"), join(folder, "elsewhere")));
    await dev.said(served, () => renameSync(join(folder, "elsewhere"), join(folder, "workflows/sub")));
    expect(await (await fetch(`${dev.url}/said`)).text()).toBe("1");
  });

  it("dev runs an import only if it is a module", async () => {
    const wasm = Buffer.from(
      "0061736d0100000001070160027f7f017f030201000707010361646400000a09010700200020016a0b",
      "hex",
    );
    const folder = createProject({
      "agents.config.ts": toConfig("() => String(m.add(40, 2))", 'import * as m from "./add.wasm";'),
      "notes.txt": "globalThis.executed = true;",
      "package.json": "{}",
    });
    writeFileSync(join(folder, "add.wasm"), wasm);
    const dev = await openDev(folder);
    expect(await (await fetch(`${dev.url}/said`)).text()).toBe("42");
    const said = await dev.refuses({
      "agents.config.ts": toConfig("() => String(m)", 'import * as m from "./notes.txt";'),
    });
    expect(said).toContain('Unknown file extension ".txt"');
    await dev.serves({ "agents.config.ts": toConfig("() => String(globalThis.executed)") });
    expect(await (await fetch(`${dev.url}/said`)).text()).toBe("undefined");
  });

  it("dev serves an old file that is moved or linked into a folder", async () => {
    const folder = createProject({ "agents.config.ts": lazy, "old/a.ts": workflow("a"), "other.ts": workflow("b") });
    mkdirSync(join(folder, "workflows"));
    const dev = await openDev(folder);
    await dev.said(served, () => renameSync(join(folder, "old"), join(folder, "workflows/moved")));
    expect(await dev.workflows()).toEqual(["a:1"]);
    await dev.said(served, () => symlinkSync("../other.ts", join(folder, "workflows/link.ts")));
    expect((await dev.workflows()).toSorted()).toEqual(["a:1", "b:1"]);
  });
});

describe("a module that failed", () => {
  it.each([
    ["a CommonJS module that another requires and that threw", "lib/b.cjs", "exports.n = 1;", "throw new Error('no');"],
    ["required JSON that was broken", "lib/b.json", '{"n":1}', '{"n":'],
    ["a module that was removed", "lib/b.ts", "export const n: number = 1;", undefined],
  ])("dev reloads when %s is fixed", async (_, name, good, bad) => {
    const how = name.endsWith(".ts")
      ? 'export { n } from "./b.js";'
      : `import { createRequire } from "node:module";\nexport const { n } = createRequire(import.meta.url)("../${name}");`;
    const dev = await startDev({
      "agents.config.ts": toConfig("() => String(n)", 'import { n } from "./lib/a.ts";'),
      "lib/a.ts": how,
      [name]: good,
    });
    const ask = async () => (await fetch(`${dev.url}/said`)).text();
    expect(await ask()).toBe("1");
    if (bad === undefined) await dev.said(refused, () => rmSync(join(dev.folder, name)));
    else await dev.refuses({ [name]: bad });
    expect(await ask()).toBe("1");
    await dev.serves({ [name]: good.replace("1", "2") });
    expect(await ask()).toBe("2");
  });
});

describe("a load that does not end", () => {
  it("dev abandons a load that does not end for the next save", async () => {
    const dev = await startDev({ "agents.config.ts": lazy, "lib/late.ts": late("one") });
    const hanging = `await new Promise(() => setInterval(() => {}, 1e6));\n${lazy}`;
    await dev.said(/^loading …\n/m, () => dev.save({ "agents.config.ts": hanging }));
    expect((await fetch(`${dev.url}/said`)).status).toBe(200);
    await dev.serves({ "agents.config.ts": lazy.replace("/said", "/later") });
    expect((await fetch(`${dev.url}/later`)).status).toBe(200);
  });
});

describe("an invalid setting", () => {
  it("dev reports an invalid PORT in .env, and serves the last good version", async () => {
    const dev = await startDev(
      { "agents.config.ts": lazy, "lib/late.ts": late("one") },
      { args: [], env: { ...process.env, PORT: undefined, HOST: undefined } as never },
    );
    const said = await dev.said(refused, () => dev.save({ ".env": "PORT=abc\n" }));
    expect(said).toMatch(/^error PORT: expected a port number/m);
    expect(said).not.toContain("✓");
    await dev.said(served, () => dev.save({ ".env": "" }));
  });
});
