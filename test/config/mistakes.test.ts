import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import * as index from "agentserve";
import * as models from "agentserve/models";
import { createLoader, findConfig } from "../../src/config/load.ts";
import { createSnapshot } from "../../src/config/snapshot.ts";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger } from "../harness/server.ts";
import { noRuntime } from "../harness/no-runtime.ts";
import { noTracer } from "../harness/tracer.ts";

const own = { agentserve: index, "agentserve/models": models };

const define = (body: string) =>
  `import { defineConfig } from "agentserve";\nexport default defineConfig(${body} as never);\n`;
const workflow = (id: string) =>
  `import { defineWorkflow } from "agentserve";\nexport const it = defineWorkflow({ id: "${id}" });\n`;
const one = "agents.config.ts";

/** The message of a project that does not load, with the folder's name taken out. */
async function mistake(files: Record<string, string>): Promise<{ message: string; hint?: string }> {
  const folder = createProject(files);
  try {
    createSnapshot(await createLoader(findConfig(undefined, folder), own).load(), {
      logger: createTestLogger([]),
      tracer: noTracer,
      ask: async () => "",
      runTurn: async () => {},
      createRuntime: noRuntime,
    });
  } catch (error) {
    const { name, message, hint } = error as { name: string; message: string; hint?: string };
    expect(name).toBe("ConfigError");
    return { message: message.replaceAll(`${folder}/`, "").replaceAll(folder, "."), ...(hint && { hint }) };
  }
  throw new Error("it loaded");
}

describe("a config with a mistake gives one readable message with file and place", () => {
  it.each<[title: string, body: string, message: string]>([
    ["a wrong type", `{ server: { port: "80" } }`, `server.port: expected a port number from 0 to 65535, found "80"`],
    [
      "a number out of range",
      `{ server: { port: 70000 } }`,
      "server.port: expected a port number from 0 to 65535, found 70000",
    ],
    [
      "a wrong type deep inside",
      `{ server: { cors: { maxAge: "x" } } }`,
      `server.cors.maxAge: expected a number of seconds, found "x"`,
    ],
    [
      "a wrong type in a list",
      `{ server: { allowedHosts: ["a", 1] } }`,
      "server.allowedHosts.1: expected an array of host names, found 1",
    ],
    ["an object that is none", `{ server: [] }`, "server: expected an object, found an array"],
    ["cors that is neither", `{ server: { cors: true } }`, "server.cors: expected false or an object, found true"],
    [
      "a limit that is no limit",
      `{ server: { limits: { bodyBytes: 0 } } }`,
      "server.limits.bodyBytes: expected a whole number from 1 to 9007199254740991, found 0",
    ],
    ["a console that is neither", `{ console: "on" }`, 'console: expected true, false or an object, found "on"'],
    [
      "an option of the console of a wrong type",
      `{ console: { readOnly: 1 } }`,
      "console.readOnly: expected true or false, found 1",
    ],
    [
      "an unknown key of the console",
      `{ console: { readonly: true } }`,
      "console.readonly: unknown key; did you mean readOnly?",
    ],
    ["an unknown key near a known one", `{ server: { prot: 1 } }`, "server.prot: unknown key; did you mean port?"],
    [
      "an unknown key",
      `{ colour: 1 }`,
      "colour: unknown key; expected agents, agentsDir, workflows, workflowsDir, schedules, schedulesDir, server, auth, authorize, console, prices, logger, backend, configureApp, onDispose",
    ],
    [
      "an unknown key under cors",
      `{ server: { cors: { orgin: "x" } } }`,
      "server.cors.orgin: unknown key; did you mean origin?",
    ],
    [
      "something that is no workflow",
      `{ workflows: [{ id: "x" }] }`,
      "workflows.0: expected a workflow created by defineWorkflow(), found an object",
    ],
    ["no function", `{ configureApp: "x" }`, `configureApp: expected a function that takes the app, found "x"`],
    ["an authorize that is no function", `{ authorize: {} }`, "authorize: expected a function, found an object"],
    [
      "authorize without a provider",
      `{ authorize: () => true }`,
      "authorize: needs an authentication provider: set auth, for example auth: jwtAuth({ secret })",
    ],
    ["no object at all", `3`, "expected an object created by defineConfig(), found 3"],
  ])("%s", async (_, body, message) => {
    expect(await mistake({ [one]: define(body) })).toEqual({ message: `${one}: ${message}` });
  });

  it("an origin that no browser sends, a time that no timer waits, a mistake behind a promise", async () => {
    const origin = await mistake({ [one]: define(`{ server: { cors: { origin: "http://localhost:5173/" } } }`) });
    expect(origin.message).toMatch(
      /server\.cors\.origin: expected an origin such as .*found "http:\/\/localhost:5173\/"$/,
    );
    const time = await mistake({ [one]: define(`{ server: { limits: { drainMs: 3_000_000_000 } } }`) });
    expect(time.message).toContain("server.limits.drainMs: expected a whole number from 1 to 2147483647");
    const promise = await mistake({ [one]: "export default Promise.resolve({ server: { prot: 1 } });" });
    expect(promise.message).toContain("server.prot: unknown key; did you mean port?");
  });

  it("several at once: a line each", async () => {
    const { message } = await mistake({ [one]: define(`{ a: 1, server: { port: -1 } }`) });
    expect(message.split("\n")).toHaveLength(2);
  });

  it("authorize of a workflow or an agent without a provider, at the place that defines it", async () => {
    const needs = "authorize: needs an authentication provider: set auth, for example auth: jwtAuth({ secret })";
    const guarded = `import { defineWorkflow } from "agentserve";
export const it = defineWorkflow({ id: "w", authorize: () => true });`;
    const files = { [one]: define("{}"), "workflows/guarded.ts": guarded };
    expect(await mistake(files)).toEqual({ message: `workflows/guarded.ts: workflow w: ${needs}` });
    const folder = createProject(files);
    const error: unknown = await createLoader(findConfig(undefined, folder), own)
      .load()
      .catch((reason: unknown) => reason);
    expect(error).toMatchObject({ place: { line: 2, column: 36 } });
    const agent = `import { defineAgent } from "agentserve";\nimport { echoModel } from "agentserve/models";
export const it = defineAgent({ id: "a", instructions: "", model: echoModel(), authorize: () => true });`;
    expect(await mistake({ [one]: define("{}"), "agents/guarded.ts": agent })).toEqual({
      message: `agents/guarded.ts: agent a: ${needs}`,
    });
  });

  it("a missing default export", async () => {
    expect(await mistake({ [one]: "export const config = {};" })).toEqual({
      message: `${one}: no default export`,
      hint: "add: export default defineConfig({ … })",
    });
  });

  it("a syntax error", async () => {
    expect(await mistake({ [one]: "export default {\n  server: {,\n};\n" })).toEqual({
      message: `${one}:2:12: Unexpected token`,
    });
  });

  it("a syntax error in a file that it imports", async () => {
    const files = { [one]: `import "./lib/a.ts";\nexport default {};`, "lib/a.ts": "\n\nconst = 1;" };
    expect((await mistake(files)).message).toMatch(/^lib\/a\.ts:3:\d+: Unexpected token/);
  });

  it("an import that throws, at the line that threw", async () => {
    const files = {
      [one]: `import "./lib/a.ts";\nexport default {};`,
      "lib/a.ts": `function key() {\n  throw new Error("OPENAI_API_KEY is not set");\n}\nkey();\n`,
    };
    expect((await mistake(files)).message).toMatch(/^lib\/a\.ts:2:\d+: OPENAI_API_KEY is not set$/);
  });

  it("an import that throws something else than an Error", async () => {
    expect((await mistake({ [one]: `throw "no";\nexport default {};` })).message).toBe(
      `${one}: threw "no" while loading`,
    );
  });

  it("a package that is not installed", async () => {
    expect(await mistake({ [one]: `import "@nobody/nothing/sub";\nexport default {};` })).toEqual({
      message: `${one}:1:8: Cannot find module '@nobody/nothing/sub'`,
      hint: "npm install @nobody/nothing",
    });
  });

  it("a file that is not there", async () => {
    expect(await mistake({ [one]: `import "./nothing.ts";\nexport default {};` })).toEqual({
      message: `${one}:1:8: Cannot find module './nothing.ts'`,
    });
  });

  it.each<[title: string, line: string, message: string, hint: string | undefined]>([
    [
      "a file",
      `import { a } from "./lib/hlper.ts";\na();`,
      "2:19: Cannot find module './lib/hlper.ts'",
      "./lib/helper.ts",
    ],
    ["our package", `const { a } = await import("agentserv");`, "2:28: Cannot find module 'agentserv'", "agentserve"],
    [
      "a name of our package",
      `import { defineWorkflow as d, defineAgnt as agent } from "agentserve";\nd({ id: "w" });\nagent({});`,
      '2:31: "agentserve" has no export named "defineAgnt"',
      "defineAgent",
    ],
    [
      "a name of a file",
      `import {\n  helper,\n  hlper,\n} from "./lib/helper.ts";\nnew hlper(helper);`,
      '4:3: "./lib/helper.ts" has no export named "hlper"',
      undefined,
    ],
  ])("a misspelt import, at its line: %s", async (_, line, message, near) => {
    const files = {
      [one]: `// first line\n${line}\nexport default {};`,
      "lib/helper.ts": "export const helper = 1;\n",
    };
    const found = await mistake(files);
    expect(found).toEqual({ message: `${one}:${message}`, ...(near && { hint: `did you mean ${near}?` }) });
  });

  it("two workflows with one id, naming both files", async () => {
    const files = { [one]: define("{}"), "workflows/a.ts": workflow("same"), "workflows/b.ts": workflow("same") };
    expect((await mistake(files)).message).toBe(
      "Two workflows have the id same: in workflows/a.ts and in workflows/b.ts",
    );
  });

  it("two steps with one id, at the line of the second", async () => {
    const text = `import { defineWorkflow } from "agentserve";\nexport default defineWorkflow({ id: "w" })\n  .andTap({ id: "a", execute() {} })\n  .andTap({ id: "a", execute() {} });\n`;
    const { message } = await mistake({ [one]: define("{}"), "workflows/a.ts": text });
    expect(message).toMatch(/^workflows\/a\.ts:4:\d+: Workflow w: two steps have the id a$/);
  });

  it("two agents with one id, a name of a model that is none, what is no agent, a folder that is none", async () => {
    const agent = (id: string, model = "echo/x") =>
      `import { defineAgent } from "agentserve";\nexport default defineAgent({ id: "${id}", instructions: "", model: "${model}" });`;
    const twice = { [one]: define("{}"), "agents/a.ts": agent("same"), "agents/b.ts": agent("same") };
    expect((await mistake(twice)).message).toBe("Two agents have the id same: in agents/a.ts and in agents/b.ts");
    const wrong = { [one]: define("{}"), "agents/a.ts": agent("a", "gpt") };
    expect((await mistake(wrong)).message).toMatch(
      /^agents\/a\.ts:2:\d+: agent a: model: expected an AI SDK language model/,
    );
    expect((await mistake({ [one]: define("{ agents: [{}] }") })).message).toMatch(
      /^agents\.config\.ts: agents\.0: expected an agent created by defineAgent\(\)/,
    );
    expect((await mistake({ [one]: define(`{ agentsDir: "bots" }`) })).message).toBe("agentsDir: bots is not a folder");
  });

  it("a workflowsDir that does not exist", async () => {
    expect((await mistake({ [one]: define(`{ workflowsDir: "flows" }`) })).message).toBe(
      "workflowsDir: flows is not a folder",
    );
  });

  it("no config at all, with where it was looked for", async () => {
    const { message, hint } = await mistake({ "x.txt": "" });
    expect(message).toBe("agents.config.ts not found in .");
    expect(hint).toContain("--config <file>");
  });

  it.each(["dev", "start"])(
    "and `agentserve %s` prints it on one line, `dev` with the code, without a stack, and ends with 1",
    async (command) => {
      const folder = createProject({ [one]: define(`{ server: { prot: 1 } }`) });
      const { code, stdout, stderr } = await agentserve([command], { cwd: folder }).ended;
      const frame = [
        '  1 | import { defineConfig } from "agentserve";',
        "> 2 | export default defineConfig({ server: { prot: 1 } } as never);",
        "    |                                         ^",
        "  3 |\n",
      ].join("\n");
      expect([code, stdout, stderr]).toEqual([
        1,
        "",
        `error agents.config.ts: server.prot: unknown key; did you mean port?\n${command === "dev" ? frame : ""}`,
      ]);
      const debug = await agentserve(["--debug", command], { cwd: folder }).ended;
      expect(debug.stderr).toContain("    at ");
    },
  );
});

describe("a project", () => {
  it("finds every workflow that a file in workflows/ exports, by any name, once", async () => {
    const folder = createProject({
      [one]: `import { it as a } from "./workflows/a.ts";\nimport { defineConfig } from "agentserve";\nexport default defineConfig({ workflows: [a] });`,
      "workflows/a.ts": workflow("a"),
      "workflows/deep/b.mts": `import { defineWorkflow } from "agentserve";\nexport default defineWorkflow({ id: "b" });\nexport const c = defineWorkflow({ id: "c" });\nexport const other = 1;`,
      "workflows/_draft.ts": workflow("draft"),
      "workflows/a.test.ts": "throw new Error('a test is not a workflow')",
      "workflows/types.d.ts": "export type A = 1;",
      "workflows/notes.md": "#",
    });
    const { workflows } = createSnapshot(await createLoader(join(folder, one), own).load(), {
      logger: createTestLogger([]),
      tracer: noTracer,
      ask: async () => "",
      runTurn: async () => {},
      createRuntime: noRuntime,
    });
    expect([...workflows.keys()].toSorted()).toEqual(["a", "b", "c"]);
  });

  it("finds agents in agents/ and wherever workflows are, and workflows in agents/", async () => {
    const agent = (id: string) =>
      `export const ${id} = defineAgent({ id: "${id}", instructions: "", model: "echo/x" });`;
    const folder = createProject({
      [one]: define("{}"),
      "agents/a.ts": `import { defineAgent, defineWorkflow } from "agentserve";\n${agent("a")}\nexport const w = defineWorkflow({ id: "w" });`,
      "workflows/b.ts": `import { defineAgent } from "agentserve";\n${agent("b")}\nexport { a } from "../agents/a.ts";`,
    });
    const { agents, workflows } = createSnapshot(await createLoader(join(folder, one), own).load(), {
      logger: createTestLogger([]),
      tracer: noTracer,
      ask: async () => "",
      runTurn: async () => {},
      createRuntime: noRuntime,
    });
    expect([[...agents.keys()], [...workflows.keys()]]).toEqual([["a", "b"], ["w"]]);
  });

  it("reads .env and .env.local beside the config; the real environment wins, then .env.local", async () => {
    const folder = createProject({
      [one]: define("{ server: { host: [process.env.AS_A, process.env.AS_B, process.env.AS_C].join() } }"),
      ".env": "AS_A=env\nAS_B=env\nAS_C=env\n",
      ".env.local": "AS_B=local\nAS_C=local\n",
    });
    process.env["AS_C"] = "real";
    const { config } = await createLoader(join(folder, one), own).load();
    expect(config.server.host).toBe("env,local,real");
    for (const name of ["AS_A", "AS_B", "AS_C"]) delete process.env[name];
  });

  it("starts from agents.config.ts.example", async () => {
    const folder = createProject({ [one]: readFileSync("agents.config.ts.example", "utf8") });
    const snapshot = createSnapshot(await createLoader(join(folder, one), own).load(), {
      logger: createTestLogger([]),
      tracer: noTracer,
      ask: async () => "",
      runTurn: async () => {},
      createRuntime: noRuntime,
    });
    expect([...snapshot.workflows.keys()]).toEqual(["greeting"]);
    expect(snapshot.config.server).toMatchObject({ port: 3141, cors: { credentials: true } });
  });
});
