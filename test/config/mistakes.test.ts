import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import * as index from "agentserve";
import * as models from "agentserve/models";
import { createLoader, findConfig } from "../../src/config/load.ts";
import { createSnapshot, type Snapshot } from "../../src/config/snapshot.ts";
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
const agent = (id: string, options = `model: "echo/x"`) =>
  `import { defineAgent } from "agentserve";\nexport const it = defineAgent({ id: "${id}", instructions: "", ${options} });`;
const schedule = (workflowId: string, cron = "0 3 * * *") =>
  `import { defineSchedule } from "agentserve";\nexport default defineSchedule({ id: "nightly", workflow: "${workflowId}", cron: "${cron}" });\n`;
const one = "agents.config.ts";

async function load(folder: string): Promise<Snapshot> {
  return createSnapshot(await createLoader(findConfig(undefined, folder), own).load(), {
    logger: createTestLogger([]),
    tracer: noTracer,
    ask: async () => "",
    runTurn: async () => {},
    createRuntime: noRuntime,
  });
}

interface Mistake {
  message: string;
  hint?: string;
  place?: { line: number; column: number };
}
/** The message of a project that does not load, with the folder's name taken out. */
async function mistake(files: Record<string, string>): Promise<Mistake> {
  const folder = createProject(files);
  const error: unknown = await load(folder).catch((reason: unknown) => reason);
  expect(error).toMatchObject({ name: "ConfigError" });
  const { message, hint, place } = error as Mistake; // as its name says
  return { message: message.replaceAll(`${folder}/`, "").replaceAll(folder, "."), ...(hint && { hint }), place };
}

/** An option of the config, and the message after the name of its file. */
const wrongOptions: [title: string, body: string, message: string][] = [
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
  [
    "a time that no timer waits",
    `{ server: { limits: { drainMs: 3_000_000_000 } } }`,
    "server.limits.drainMs: expected a whole number from 1 to 2147483647, found 3000000000",
  ],
  [
    "an origin that no browser sends",
    `{ server: { cors: { origin: "http://localhost:5173/" } } }`,
    'server.cors.origin: expected an origin such as http://localhost:5173, an array of origins, or a function, found "http://localhost:5173/"',
  ],
  [
    "an entry that is no agent",
    `{ agents: [{}] }`,
    "agents.0: expected an agent created by defineAgent(), found an object",
  ],
  [
    "an entry that is no schedule",
    `{ schedules: [{ id: "nightly" }] }`,
    "schedules.0: expected a schedule created by defineSchedule(), found an object",
  ],
];

const needsProvider = "authorize: needs an authentication provider: set auth, for example auth: jwtAuth({ secret })";
const empty = { [one]: define("{}") };
const importing = (file: string) => `import "${file}";\nexport default {};`;

/** The files of a project, its message and hint. */
const wrongFiles: [title: string, files: Record<string, string>, message: string | RegExp, hint?: string][] = [
  [
    "a mistake behind a promise",
    { [one]: "export default Promise.resolve({ server: { prot: 1 } });" },
    `${one}: server.prot: unknown key; did you mean port?`,
  ],
  [
    "several mistakes, a line each",
    { [one]: define(`{ a: 1, server: { port: -1 } }`) },
    /^agents\.config\.ts: .*\nagents\.config\.ts: .*$/,
  ],
  [
    "authorize of a workflow without a provider",
    { ...empty, "workflows/guarded.ts": workflow("w").replace(" });", ", authorize: () => true });") },
    `workflows/guarded.ts: workflow w: ${needsProvider}`,
  ],
  [
    "authorize of an agent without a provider",
    { ...empty, "agents/guarded.ts": agent("a", `model: "echo/x", authorize: () => true`) },
    `agents/guarded.ts: agent a: ${needsProvider}`,
  ],
  [
    "a missing default export",
    { [one]: "export const config = {};" },
    `${one}: no default export`,
    "add: export default defineConfig({ … })",
  ],
  ["a syntax error", { [one]: "export default {\n  server: {,\n};\n" }, `${one}:2:12: Unexpected token`],
  [
    "a syntax error in a file that it imports",
    { [one]: importing("./lib/a.ts"), "lib/a.ts": "\n\nconst = 1;" },
    /^lib\/a\.ts:3:\d+: Unexpected token/,
  ],
  [
    "an import that throws, at the line that threw",
    {
      [one]: importing("./lib/a.ts"),
      "lib/a.ts": `function key() {\n  throw new Error("OPENAI_API_KEY is not set");\n}\nkey();\n`,
    },
    /^lib\/a\.ts:2:\d+: OPENAI_API_KEY is not set$/,
  ],
  [
    "an import that throws, with the causes of its error",
    {
      [one]: importing("./lib/a.ts"),
      "lib/a.ts": `const refused = new Error("connect ECONNREFUSED", { cause: "port 5432" });
const failed = new Error("no database", { cause: refused });
throw new Error("no settings", { cause: failed });\n`,
    },
    "lib/a.ts:3:7: no settings\n  caused by: no database\n  caused by: connect ECONNREFUSED\n  caused by: port 5432",
  ],
  [
    "an import whose error is its own cause",
    {
      [one]: importing("./lib/a.ts"),
      "lib/a.ts": `\nconst error = new Error("no");\nthrow Object.assign(error, { cause: error });\n`,
    },
    "lib/a.ts:2:15: no",
  ],
  [
    "an import that throws something else than an Error",
    { [one]: `throw "no";\nexport default {};` },
    `${one}: threw "no" while loading`,
  ],
  [
    "a package that is not installed",
    { [one]: importing("@nobody/nothing/sub") },
    `${one}:1:8: Cannot find module '@nobody/nothing/sub'`,
    "npm install @nobody/nothing",
  ],
  ["a file that is not there", { [one]: importing("./nothing.ts") }, `${one}:1:8: Cannot find module './nothing.ts'`],
  [
    "two workflows with one id, naming both files",
    { ...empty, "workflows/a.ts": workflow("same"), "workflows/b.ts": workflow("same") },
    "Two workflows have the id same: in workflows/a.ts and in workflows/b.ts",
  ],
  [
    "two agents with one id, naming both files",
    { ...empty, "agents/a.ts": agent("same"), "agents/b.ts": agent("same") },
    "Two agents have the id same: in agents/a.ts and in agents/b.ts",
  ],
  [
    "two schedules with one id, naming both files",
    {
      ...empty,
      "workflows/w.ts": workflow("report"),
      "schedules/a.ts": schedule("report"),
      "schedules/b.ts": schedule("report"),
    },
    "Two schedules have the id nightly: in schedules/a.ts and in schedules/b.ts",
  ],
  [
    "two steps with one id, at the line of the second",
    {
      ...empty,
      "workflows/a.ts": `import { defineWorkflow } from "agentserve";\nexport default defineWorkflow({ id: "w" })\n  .andTap({ id: "a", execute() {} })\n  .andTap({ id: "a", execute() {} });\n`,
    },
    /^workflows\/a\.ts:4:\d+: Workflow w: two steps have the id a$/,
  ],
  [
    "a model name that is none",
    { ...empty, "agents/a.ts": agent("a", `model: "gpt"`) },
    /^agents\/a\.ts:2:\d+: agent a: model: expected an AI SDK language model/,
  ],
  [
    "a wrong cron",
    { ...empty, "schedules/night.ts": schedule("report", "0 25 * * *") },
    /^schedules\/night\.ts:2:\d+: Schedule nightly: cron: "0 25 \* \* \*" is not a cron pattern: Invalid value for hour: 25$/,
  ],
  [
    "a schedule of an unknown workflow",
    { ...empty, "schedules/night.ts": schedule("reprt") },
    "schedules/night.ts: schedule nightly: there is no workflow reprt",
    "export it from a file in workflows/, or list it in the config",
  ],
  ...["agents", "workflows", "schedules"].map((what): (typeof wrongFiles)[number] => [
    `${what}Dir that is not a folder`,
    { [one]: define(`{ ${what}Dir: "none" }`) },
    `${what}Dir: none is not a folder`,
  ]),
  [
    "no config at all",
    { "x.txt": "" },
    "agents.config.ts not found in .",
    "run this command next to agents.config.ts, pass --config <file>, or create a project: npx agentserve init",
  ],
];

describe("a config with a mistake", () => {
  it.each(wrongOptions)("refuses a wrong config in one line that names the option: %s", async (_, body, message) => {
    expect((await mistake({ [one]: define(body) })).message).toBe(`${one}: ${message}`);
  });

  it.each(wrongFiles)("refuses a project with the file and the place: %s", async (_, files, message, hint) => {
    const found = await mistake(files);
    if (typeof message === "string") expect(found.message).toBe(message);
    else expect(found.message).toMatch(message);
    expect(found.hint).toBe(hint);
  });

  it("shows the place that defines a workflow with authorize and no provider", async () => {
    const files = { ...empty, "workflows/w.ts": workflow("w").replace(" });", ", authorize: () => true });") };
    expect((await mistake(files)).place).toMatchObject({ line: 2, column: 36 });
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
  ])("refuses a config at the line of a misspelt import: %s", async (_, line, message, near) => {
    const files = {
      [one]: `// first line\n${line}\nexport default {};`,
      "lib/helper.ts": "export const helper = 1;\n",
    };
    const found = await mistake(files);
    expect([found.message, found.hint]).toEqual([`${one}:${message}`, near && `did you mean ${near}?`]);
  });

  it.each(["dev", "start"])(
    "ends `agentserve %s` with 1 at a mistake in the config, which is one line without a stack, in `dev` with the code",
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
  it("serves every workflow that a file in workflows/ exports, by any name, once", async () => {
    const folder = createProject({
      [one]: `import { it as a } from "./workflows/a.ts";\nimport { defineConfig } from "agentserve";\nexport default defineConfig({ workflows: [a] });`,
      "workflows/a.ts": workflow("a"),
      "workflows/deep/b.mts": `import { defineWorkflow } from "agentserve";\nexport default defineWorkflow({ id: "b" });\nexport const c = defineWorkflow({ id: "c" });\nexport const other = 1;`,
      "workflows/_draft.ts": workflow("draft"),
      "workflows/a.test.ts": "throw new Error('a test is not a workflow')",
      "workflows/types.d.ts": "export type A = 1;",
      "workflows/notes.md": "#",
    });
    const { workflows } = await load(folder);
    expect([...workflows.keys()].toSorted()).toEqual(["a", "b", "c"]);
  });

  it("serves agents in agents/ and wherever workflows are, and workflows in agents/", async () => {
    const exported = (id: string) =>
      `export const ${id} = defineAgent({ id: "${id}", instructions: "", model: "echo/x" });`;
    const folder = createProject({
      [one]: define("{}"),
      "agents/a.ts": `import { defineAgent, defineWorkflow } from "agentserve";\n${exported("a")}\nexport const w = defineWorkflow({ id: "w" });`,
      "workflows/b.ts": `import { defineAgent } from "agentserve";\n${exported("b")}\nexport { a } from "../agents/a.ts";`,
    });
    const { agents, workflows } = await load(folder);
    expect([[...agents.keys()], [...workflows.keys()]]).toEqual([["a", "b"], ["w"]]);
  });

  it("reads .env and .env.local beside the config; the real environment wins, then .env.local", async () => {
    const folder = createProject({
      [one]: define("{ server: { host: [process.env.AS_A, process.env.AS_B, process.env.AS_C].join() } }"),
      ".env": "AS_A=env\nAS_B=env\nAS_C=env\n",
      ".env.local": "AS_B=local\nAS_C=local\n",
    });
    process.env["AS_C"] = "real";
    const { config } = await load(folder);
    expect(config.server.host).toBe("env,local,real");
    for (const name of ["AS_A", "AS_B", "AS_C"]) delete process.env[name];
  });

  it("loads agents.config.ts.example as the config of a project", async () => {
    const folder = createProject({ [one]: readFileSync("agents.config.ts.example", "utf8") });
    const snapshot = await load(folder);
    expect([...snapshot.workflows.keys()]).toEqual(["greeting"]);
    expect(snapshot.config.server).toMatchObject({ port: 3141, cors: { credentials: true } });
  });
});
