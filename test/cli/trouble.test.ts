import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, rmSync } from "node:fs";
import { get, request } from "node:https";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";
import { describe, expect, it } from "vitest";
import { refused, served, startDev, workflow, writeFiles } from "../dev/dev-server.ts";
import { agentserve, withoutActivity, type Child } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";
import { openSocket } from "../harness/server.ts";

const define = (body: string): string => `import { defineConfig, jwtAuth } from "agentserve";
export default defineConfig({
  ${body}
});
`;
const closed = "server: { cors: false, limits: { drainNoticeMs: 0 } },";
const files = { "agents.config.ts": define(closed), "workflows/w.ts": workflow("w") };
const ready = /(https?:\/\/\S+).* ready in/;
const memory = ["--port", "0", "--data", ":memory:"];
const nobody = { uid: 65_534, gid: 65_534 };

async function urlOf(child: Child): Promise<string> {
  const [, url = ""] = await child.waitFor(ready);
  return url;
}
async function signalled(child: Child, signal: NodeJS.Signals): Promise<number | null> {
  child.process.kill(signal);
  return (await child.ended).code;
}

describe.each(["dev", "start"])("agentserve %s that cannot start", (command) => {
  /** What it says before it ends. */
  async function failing(project: Record<string, string>, args: string[] = []): Promise<string> {
    const { code, stdout, stderr } = await runHere([command, ...args], { cwd: createProject(project) });
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr.match(/^error /gm)).toHaveLength(1);
    expect(stderr).not.toMatch(/^ +at /m);
    return stderr;
  }

  const configs: [title: string, config: string, line: string, frame: string][] = [
    [
      "if the config throws",
      `\nthrow new Error("no luck");\n`,
      "agents.config.ts:2:7: no luck",
      `> 2 | throw new Error("no luck");`,
    ],
    [
      "if the config has a syntax error",
      "\nexport default {;\n",
      "agents.config.ts:2:17: Unexpected token",
      "> 2 | export default {;",
    ],
    [
      "if the config has an unknown key",
      "export default {\n  agentz: [],\n};\n",
      "agents.config.ts: agentz: unknown key; did you mean agents?",
      "> 2 |   agentz: [],",
    ],
    ["if the config throws null", "throw null;", "agents.config.ts: threw null while loading", ""],
    [
      "if the config throws an error with an odd stack",
      `throw Object.assign(new Error("odd"), { stack: 7 });`,
      "agents.config.ts: odd",
      "",
    ],
  ];
  it.each(configs)("ends with 1 and one line, %s", async (_, config, line, frame) => {
    const stderr = await failing({ "agents.config.ts": config });
    expect(stderr.split("\n")[0]).toBe(`error ${line}`);
    // The code is for those who are at work on it.
    if (command === "dev") expect(stderr).toContain(frame);
    else expect(stderr).not.toMatch(/^> /m);
  });

  it("ends with 1 and one line if it cannot listen on the host", async () => {
    const stderr = await failing(files, [...memory, "--host", "no-such-host.invalid"]);
    expect(stderr).toMatch(/^error Cannot listen on no-such-host\.invalid:0: /);
    expect(await failing(files, [...memory, "--host", "192.0.2.1"])).toMatch(
      /^error Cannot listen on 192\.0\.2\.1:0: /,
    );
  });

  it("ends with 1 and one line if the data file is not a store", async () => {
    const garbage = "this has never been a database, and it never will be\n".repeat(50);
    expect(await failing({ ...files, "data.db": garbage }, ["--port", "0", "--data", "data.db"])).toMatch(
      /^error \S+data\.db is damaged or is not an agentserve store: .*\nhint {2}/,
    );
    expect(await failing(files, ["--port", "0", "--data", "workflows"])).toMatch(
      /^error \S+workflows cannot be opened: .*\nhint {2}.*--data\n$/,
    );
  });
});

describe.each(["dev", "start"])("agentserve %s and a store that another process holds", (command) => {
  it("waits until another process releases the store, and then serves", async () => {
    const cwd = createProject(files);
    const first = agentserve(["start", "--port", "0"], { cwd });
    const url = await urlOf(first);
    const second = agentserve([command, "--port", "0"], { cwd });
    const waiting = `Another process (pid ${first.process.pid}, ${url}) is using the store: waiting until it is free`;
    await expect.poll(() => second.output().stderr).toContain(waiting);
    expect(await signalled(first, "SIGTERM")).toBe(0);
    expect((await fetch(`${await urlOf(second)}/workflows`)).status).toBe(200);
  });

  it("ends at SIGINT while it waits for the store of another process", async () => {
    const cwd = createProject(files);
    const first = agentserve(["start", "--port", "0"], { cwd });
    await urlOf(first);
    const second = agentserve([command, "--port", "0"], { cwd });
    await expect.poll(() => second.output().stderr).toContain("waiting until it is free");
    second.process.kill("SIGINT");
    await second.ended;
    expect((await fetch(`${await urlOf(first)}/workflows`)).status).toBe(200);
  });
});

// That it is given up after 15 s is shown in faults/second-process.

const isRoot = process.getuid?.() === 0;
if (!isRoot) console.log("skipped: folders that are read-only (only root can become somebody else for that)");
describe.runIf(isRoot).each(["dev", "start"])("agentserve %s in a read-only folder", (command) => {
  function readOnly(): string {
    const folder = createProject(files);
    for (const name of ["workflows", ""]) chmodSync(join(folder, name), 0o555);
    return folder;
  }

  it("names the data file that it cannot write in a read-only folder, and suggests --data", async () => {
    const cwd = readOnly();
    const { code, stdout, stderr } = await agentserve([command, "--port", "0"], { cwd, ...nobody }).ended;
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).toMatch(
      /^error \S+\/\.agentserve\/data\.db cannot be opened: .*permission denied.*\nhint {2}.*--data\n$/,
    );
  });

  it("serves a read-only folder with its data elsewhere", async () => {
    const elsewhere = createProject({});
    chmodSync(elsewhere, 0o777);
    const args = [command, "--port", "0", "--data", join(elsewhere, "data.db")];
    const child = agentserve(args, { cwd: readOnly(), ...nobody });
    expect((await fetch(`${await urlOf(child)}/workflows`)).status).toBe(200);
    expect(existsSync(join(elsewhere, "data.db"))).toBe(true);
    expect(withoutActivity(child.output().stderr)).toBe("");
  });
});

describe.each(["dev", "start"])("agentserve %s at a signal", (command) => {
  it("waits for a response at the first signal, and ends at once at the second", async () => {
    const slow = define(
      `server: { cors: false },\n  configureApp: (app) => void app.get("/slow", () => new Promise(() => {})),`,
    );
    const child = agentserve([command, ...memory], { cwd: createProject({ "agents.config.ts": slow }) });
    const url = await urlOf(child);
    await (await fetch(`${url}/workflows`)).text();
    const waiting = fetch(`${url}/slow`).catch(() => "cut");
    await (await fetch(`${url}/workflows`)).text(); // after the one that waits
    child.process.kill("SIGINT");
    await child.waitFor(/press Ctrl\+C again to force/);
    expect(await signalled(child, "SIGINT")).toBe(1);
    expect(await waiting).toBe("cut");
  });
});

describe("agentserve dev --https", () => {
  it.each<[string, string, string[]]>([
    ["by the flag", define("server: { cors: false },"), ["--https"]],
    ["by the config", define("server: { cors: false, https: true },"), []],
  ])(
    "dev answers requests, streams and sockets over HTTPS with a self-signed certificate, set %s",
    async (_, config, args) => {
      const child = agentserve(["dev", ...memory, ...args], {
        cwd: createProject({ ...files, "agents.config.ts": config }),
      });
      const url = await urlOf(child);
      expect(url).toMatch(/^https:\/\/127\.0\.0\.1:\d+$/);
      const trusting = { rejectUnauthorized: false };
      const [response] = await once(get(`${url}/workflows`, trusting), "response");
      expect(JSON.parse(await text(response))).toMatchObject({ success: true, data: [{ id: "w" }] });
      const headers = { "content-type": "application/json" };
      const asked = request(`${url}/workflows/w/stream`, { ...trusting, method: "POST", headers }).end(`{"input":{}}`);
      const [stream] = await once(asked, "response");
      expect(await text(stream)).toContain('"type":"workflow-result"');
      const socket = await openSocket(`${url.replace("https", "wss")}/ws`, trusting);
      expect(await socket.next()).toMatchObject({ success: true });
      socket.close();
      await expect(fetch(`${url}/workflows`)).rejects.toThrow(); // signed by nobody that anybody trusts
      expect(await signalled(child, "SIGINT")).toBe(0);
    },
  );

  it("start ignores https and prints the http URL under which it answers", async () => {
    const config = define("server: { cors: false, https: true },");
    const child = agentserve(["start", ...memory], { cwd: createProject({ "agents.config.ts": config }) });
    const url = await urlOf(child);
    expect(url).toMatch(/^http:/);
    expect((await fetch(`${url}/workflows`)).status).toBe(200);
  });
});

// The browser that it does open, and a machine without one, are in console/link.
it.runIf(process.platform === "linux")(
  "dev --open runs nothing that others may have put into the temporary folder",
  async () => {
    const cwd = createProject(files);
    const log = join(cwd, "opened.txt");
    for (const name of ["bin/xdg-open", "bin/browser", "planted/xdg-open"]) {
      writeFiles(cwd, { [name]: `#!/bin/sh\necho "${name} $1" >> '${log}'\n` });
      chmodSync(join(cwd, name), 0o755);
    }
    const path = join(cwd, "bin");
    const env = {
      ...process.env,
      NODE_ENV: "", // listhen opens nothing for those who test it
      TEST: "",
      VITEST: "",
      CI: "",
      PATH: `${path}${delimiter}${process.env["PATH"]}`,
      BROWSER: join(path, "browser"),
      TMPDIR: join(cwd, "planted"),
    };
    await urlOf(agentserve(["dev", "--open", ...memory], { cwd, env }));
    await expect.poll(() => (existsSync(log) ? readFileSync(log, "utf8") : "")).not.toBe("");
    expect(readFileSync(log, "utf8")).not.toContain("planted");
  },
);

describe("agentserve start --strict", () => {
  const secret = `secret: "x".repeat(32)`;
  const weak = `${closed} auth: jwtAuth({ secret: "x", ownership: true }),`;
  const proxied = "authenticatedByProxy: true, limits: { drainNoticeMs: 0 }";
  const start = (body: string, args: string[]) => {
    const cwd = createProject({ "agents.config.ts": define(body) });
    return runHere(["start", "--strict", ...memory, ...args], { cwd, interrupts: true });
  };

  it.each<[title: string, body: string, args: string[], line: RegExp]>([
    ["cors that names no origin", "server: { authenticatedByProxy: true },", [], /Pages of any origin can call/],
    [
      "cors with other keys only",
      "server: { authenticatedByProxy: true, cors: { maxAge: 1 } },",
      [],
      /any origin can call/,
    ],
    [
      "no provider on a public address",
      closed,
      ["--host", "0.0.0.0"],
      /anyone who can reach 0\.0\.0\.0 can call every/,
    ],
    ["no provider behind a proxy", closed, [], /reach 127\.0\.0\.1, also through a proxy, can call every/],
    [
      "a resume by any caller",
      `${closed} auth: jwtAuth({ ${secret} }),`,
      [],
      /Anyone who knows the id of an execution/,
    ],
    [
      "executions that every caller with a token can read",
      `${closed} auth: jwtAuth({ ${secret}, protect: ["ALL /workflows/:id/executions/*"] }),`,
      [],
      /Every authenticated caller can list and read the executions of other users/,
    ],
    ["a weak secret", weak, [], /The secret of jwtAuth\(\) is shorter/],
  ])("start --strict refuses %s", async (_, body, args, line) => {
    const { code, stdout, stderr } = await start(body, args);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr.split("\n")).toEqual([expect.stringMatching(line), expect.stringMatching(/^hint {2}\S/), ""]);
  });

  it("start --strict prints all risks, not only the first one", async () => {
    const { stderr } = await start(`auth: jwtAuth({ secret: "x" }),`, []);
    for (const name of ["The secret of jwtAuth()", "Anyone who knows the id", "Pages of any origin"])
      expect(stderr).toContain(name);
  });

  it.each<[title: string, body: string, args: string[]]>([
    ["for named origins", `server: { ${proxied}, cors: { origin: ["https://app.example"] } },`, []],
    ["behind a proxy that authenticates", `server: { ${proxied}, cors: false },`, ["--host", "0.0.0.0"]],
    [
      "on a public address, with owners",
      `${closed} auth: jwtAuth({ ${secret}, ownership: true }),`,
      ["--host", "0.0.0.0"],
    ],
  ])("start --strict serves without risks %s", async (_, body, args) => {
    const { code, stdout, stderr } = await start(body, args);
    expect([code, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(ready);
  });
});

describe("hostile text in the terminal", () => {
  const evil = "\u001B[31m\u001B]0;title\u0007<script>\"'\r\nerror fake\u009B2J\u202E";
  const quoted = JSON.stringify(evil);
  const control = /(?![\n\t])\p{Cc}|\p{Bidi_Control}/u;
  const bad: Record<string, Record<string, string>> = {
    "the message of an error": { "workflows/w.ts": `throw new Error(${quoted});` },
    "a string that is thrown": { "workflows/w.ts": `throw ${quoted};` },
    "the code around it": { "workflows/w.ts": `const a = "${evil.replaceAll(/["\r\n]/g, "")}";\n(` },
    "the name of a module": { "workflows/w.ts": `import ${quoted};` },
    "an id": {
      "workflows/w.ts": `import { defineWorkflow } from "agentserve";\nexport default defineWorkflow({ id: ${quoted} });`,
    },
    "10,000 letters": { "workflows/w.ts": `const a = "${"y".repeat(10_000)}";\nthrow new Error("x".repeat(10_000));` },
    "10,000 letters without an Error": { "workflows/w.ts": `throw "x".repeat(10_000);` },
    "the name of a key": { "agents.config.ts": `export default { [${quoted}]: 1 };` },
    "the value of a key": { "agents.config.ts": `export default { server: { port: ${quoted} } };` },
    "what configureApp throws": {
      "agents.config.ts": `export default { configureApp() { throw new Error(${quoted}); } };`,
    },
    "the name of a folder": { "agents.config.ts": `export default { agentsDir: ${quoted} };` },
    "the name of a file": { "workflows/a\u001B[31m\nerror fake.ts": `throw new Error("no luck");` },
  };

  it("dev escapes hostile text of a version that cannot be loaded", async () => {
    const dev = await startDev(files);
    for (const [title, save] of Object.entries(bad)) {
      const said = await dev.refuses(save);
      expect.soft(said, title).not.toMatch(control);
      expect.soft(new Set(said.match(/^error .*/gm)).size, title).toBe(1);
      expect.soft(said.length, title).toBeLessThan(5_000);
      for (const name of Object.keys(save)) if (!(name in files)) rmSync(join(dev.folder, name));
      await dev.serves(files);
    }
  });

  it("start escapes hostile text of a config that cannot be loaded", async () => {
    for (const title of ["the message of an error", "the name of a file"]) {
      const cwd = createProject({ ...files, ...bad[title] });
      const { code, stderr: raw } = await runHere(["start", ...memory], { cwd });
      expect(code).toBe(1);
      expect.soft(raw, title).not.toMatch(control);
      expect.soft(raw.match(/^error /gm), title).toHaveLength(1);
    }
  });

  it("dev escapes hostile names of agents, workflows and files", async () => {
    const named = `import { defineAgent, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";
const name = ${quoted}.repeat(500);
export const a = defineAgent({ id: "a", name, description: name, instructions: name, model: echoModel() });
export const n = defineWorkflow({ id: "n", name, purpose: name }).andThen({ id: "s", name, execute: () => 1 });
`;
    const dev = await startDev({ ...files, "workflows/a\u001B[31m.ts": named });
    await dev.said(served, () => dev.save({ "workflows/a\u001B[31m.ts": `${named}\n` }));
    await dev.said(served, () => dev.save({ "workflows/b\u001B[31m\nerror fake.ts": `export const b = 1;` }));
    expect(dev.raw()).not.toMatch(control);
    expect(dev.raw()).not.toMatch(/^error/m);
    expect(dev.raw()).not.toMatch(refused);
  });
});
