import { execFileSync } from "node:child_process";
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join, resolve } from "node:path";
import { describe, expect, it } from "vitest";
import manifest from "../../package.json" with { type: "json" };
import { agentserve, bin, run, type Child } from "../harness/cli.ts";
import { runHere } from "../harness/in-process.ts";
import { createProject } from "../harness/project.ts";

const starter = [
  ".env.example",
  ".gitignore",
  "README.md",
  "agents.config.ts",
  "agents/assistant.ts",
  "package.json",
  "tsconfig.json",
  "workflows/approval.ts",
];
const minimal = [".gitignore", "README.md", "agents.config.ts", "package.json", "tsconfig.json"];

const init = (args: string[], cwd: string) => runHere(["init", ...args], { cwd });
/** All files and links in a folder, except those of `node_modules`, which has 40,000. */
const filesOf = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true })
    .filter(({ name }) => name !== "node_modules")
    .flatMap((entry) => {
      if (!entry.isDirectory()) return [entry.name];
      return filesOf(join(folder, entry.name)).map((file) => join(entry.name, file));
    })
    .toSorted();
const read = (...path: string[]): string => readFileSync(join(...path), "utf8");

describe("agentserve init", () => {
  it("init writes the starter into the current folder without a question, and says what comes next", async () => {
    const folder = createProject({});
    const { code, stdout, stderr } = await init([], folder);
    expect([code, stderr, filesOf(folder)]).toEqual([0, "", starter]);
    expect(stdout).toBe(`agentserve init  ${folder}  template starter
${starter.map((file) => `  ${file}\n`).join("")}
Next:
  npm install
  npx agentserve dev

Then, in a second terminal, make a first call:
  npx agentserve call agent assistant "What is the weather in Berlin?"
`);
  });

  it("init suggests the first call that the README shows", async () => {
    const { stdout } = await init([], createProject({}));
    const [call] = /npx agentserve call .*/.exec(stdout)!;
    expect(/^\$ .*/m.exec(read("README.md"))![0]).toBe(`$ ${call}`);
  });

  it("init writes another template into a folder that it creates, with its parents", async () => {
    const folder = createProject({});
    const { code, stdout } = await init(["apps/my app", "--template", "minimal"], folder);
    expect([code, filesOf(join(folder, "apps/my app"))]).toEqual([0, minimal]);
    expect(stdout).toContain(`\nNext:\n  cd "apps/my app"\n  npm install\n  npx agentserve dev\n`);
    expect(stdout).toContain(`  npx agentserve call agent assistant Hello\n`);
  });

  it("init writes a package.json for this version, and a .gitignore for secrets, packages and data", async () => {
    const folder = createProject({});
    await init(["my-app"], folder);
    expect(JSON.parse(read(folder, "my-app/package.json"))).toEqual({
      name: "my-app",
      private: true,
      type: "module",
      scripts: { dev: "agentserve dev", start: "agentserve start", typecheck: "tsc" },
      dependencies: { agentserve: `^${manifest.version}`, ai: "^7.0.0", valibot: `^${manifest.dependencies.valibot}` },
      devDependencies: {
        "@types/node": `^${manifest.devDependencies["@types/node"]}`,
        typescript: `^${manifest.devDependencies.typescript}`,
      },
      engines: { node: ">=22.22" },
    });
    expect(read(folder, "my-app/.gitignore").trim().split("\n")).toEqual([
      "node_modules",
      ".env",
      ".env.local",
      ".agentserve",
    ]);
  });

  it("init writes a package.json with Vite for the support desk, and names its page", async () => {
    const folder = createProject({});
    const { code, stdout } = await init(["desk", "--template", "support-desk"], folder);
    expect([code, stdout]).toEqual([
      0,
      expect.stringContaining(`
Next:
  cd desk
  npm install
  npm run dev

Then open the page:
  http://localhost:5173/desk/
`),
    ]);
    const { dependencies, devDependencies, ...rest } = JSON.parse(read(folder, "desk/package.json"));
    expect(rest).toMatchObject({
      scripts: { dev: "vite", build: "vite build", start: "agentserve start" },
      overrides: { ai: "$ai" },
    });
    expect(Object.keys(dependencies)).toEqual(["agentserve", "ai", "valibot", "@ai-sdk/react", "react", "react-dom"]);
    expect(devDependencies["vite"]).toBe(`^${manifest.devDependencies["vite"]}`);
    expect(read(folder, "desk/.gitignore")).toContain("\ndist\n"); // the built page
  });

  it("init names all packages of the support desk in a folder that has a package.json", async () => {
    const { stdout } = await init(["--template", "support-desk"], createProject({ "package.json": "{}" }));
    expect(stdout).toContain(
      "  npm install agentserve valibot ai @ai-sdk/react react react-dom @types/react @types/react-dom vite\n  npx vite\n",
    );
  });

  const names = [
    ["Café Zürich", "cafe-zurich"],
    ["@acme+shop", "acme-shop"],
    [".hidden_App", "hidden_app"],
    ["日本", "my-app"],
    ["agentserve", "agentserve-app"],
    ["vite", "vite-app"],
    ["x".repeat(250), "x".repeat(200)],
    ['a"b\nc', "a-b-c"],
  ] as const;
  it.each(names)("init makes of the folder %j a package name that npm takes", async (dir, name) => {
    const folder = createProject({});
    expect((await init([dir, "--template", "minimal"], folder)).code).toBe(0);
    expect(JSON.parse(read(folder, dir, "package.json")).name).toBe(name);
  });

  it("init quotes a folder's name for the shell, and escapes its line breaks", async () => {
    const folder = createProject({});
    const { stdout } = await init(["it's $HOME\n\u001B[2J", "--template", "minimal"], folder);
    expect(stdout).toContain(`  cd 'it'\\''s $HOME\\x0a\\x1b[2J'\n`);
  });

  it("init writes no colours where there is no terminal", async () => {
    const env = { ...process.env, FORCE_COLOR: undefined };
    const said = execFileSync(process.execPath, [bin, "init"], { cwd: createProject({}), env, encoding: "utf8" });
    expect(said).not.toContain("\u001B");
  });

  it("init copies nothing that serving the template has left in the package", async () => {
    const copy = createProject({});
    for (const part of ["bin", "dist", "templates", "package.json"])
      cpSync(part, join(copy, part), { recursive: true });
    for (const path of [".agentserve/data.db", ".env", ".env.local", "node_modules/x/index.js"]) {
      mkdirSync(join(copy, "templates/starter", path, ".."), { recursive: true });
      writeFileSync(join(copy, "templates/starter", path), "SECRET=1\n");
    }
    const { code } = await run(process.execPath, [join(copy, "bin/agentserve.mjs"), "init", "app"], { cwd: copy })
      .ended;
    expect([code, filesOf(join(copy, "app"))]).toEqual([0, starter]);
  });

  it("init refuses an unknown template, and names all of them", async () => {
    const folder = createProject({});
    const { code, stderr } = await init(["--template", "full"], folder);
    expect([code, stderr, filesOf(folder)]).toEqual([
      2,
      expect.stringContaining("starter, minimal, pipeline, webhook, support-desk"),
      [],
    ]);
  });
});

describe("agentserve init in a folder with files", () => {
  it.each(starter.filter((file) => file !== "package.json"))(
    "init writes nothing into a folder that has %s",
    async (file) => {
      const folder = createProject({ [file]: "mine" });
      const { code, stdout, stderr } = await init([], folder);
      expect([code, stdout, stderr]).toEqual([
        1,
        "",
        `error ${folder} already has ${file}\nhint  no files were written; move the existing files, or use a new folder: npx agentserve init my-app\n`,
      ]);
      expect([filesOf(folder), read(folder, file)]).toEqual([[file], "mine"]);
    },
  );

  it("init names three of many files that exist already", async () => {
    const folder = createProject({});
    await init([], folder);
    const { code, stderr } = await init([], folder);
    expect([code, stderr]).toEqual([
      1,
      expect.stringContaining("already has .env.example, agents.config.ts, agents/assistant.ts and 1 more\n"),
    ]);
  });

  it("init adds no second config to a folder that has agents.config.mjs", async () => {
    const folder = createProject({ "agents.config.mjs": "export default {};" });
    const { code, stderr } = await init([], folder);
    expect([code, stderr]).toEqual([1, expect.stringContaining(`${folder} already has agents.config.mjs\n`)]);
    expect(filesOf(folder)).toEqual(["agents.config.mjs"]);
  });

  it("init keeps an existing package.json, README, tsconfig and .gitignore, and refuses to replace its own files", async () => {
    const kept = { "package.json": "{}", "README.md": "mine", "tsconfig.json": "{}", ".gitignore": "mine" };
    const folder = createProject(kept);
    const { code, stdout } = await init([], folder);
    expect([code, filesOf(folder)]).toEqual([0, starter]);
    for (const [file, text] of Object.entries(kept)) {
      expect(read(folder, file)).toBe(text);
      expect(stdout).toContain(`  ${file} already exists, not changed\n`);
    }
    const again = await init([], folder);
    expect([again.code, again.stderr]).toEqual([1, expect.stringContaining("already has .env.example, agents")]);
  });

  it("init keeps unrelated files, and says how to add agentserve to an existing package.json", async () => {
    const kept = { "package.json": '{"name":"mine"}', ".git/HEAD": "ref", "agents/mine.ts": "", LICENSE: "mine" };
    const folder = createProject(kept);
    const { code, stdout } = await init([], folder);
    expect([code, filesOf(folder)]).toEqual([0, [...new Set([...starter, ...Object.keys(kept)])].toSorted()]);
    for (const [file, text] of Object.entries(kept)) expect(read(folder, file)).toBe(text);
    expect(stdout).toContain("  package.json already exists, not changed\n");
    expect(stdout).toContain("\nNext:\n  npm install agentserve valibot\n  npx agentserve dev\n");
  });

  it.each([
    ["README.md", "nothing"],
    ["README.md", "theirs.md"],
    ["package.json", "nothing"],
  ])("init does not write through a link from %s to %s of another folder", async (file, target) => {
    const outside = createProject({ "theirs.md": "theirs" });
    const folder = createProject({});
    symlinkSync(join(outside, target), join(folder, file));
    const { code, stderr } = await init([], folder);
    expect([code, stderr, filesOf(folder)]).toEqual([1, expect.stringContaining(`already has ${file}\n`), [file]]);
    expect([filesOf(outside), read(outside, "theirs.md")]).toEqual([["theirs.md"], "theirs"]);
  });

  it("init refuses a target whose subfolder is a link or a file", async () => {
    const outside = createProject({});
    const folder = createProject({ workflows: "a file" });
    symlinkSync(outside, join(folder, "agents"));
    const { code, stderr } = await init([], folder);
    expect([code, stderr]).toEqual([1, expect.stringContaining("already has agents, workflows\n")]);
    expect([filesOf(outside), filesOf(folder)]).toEqual([[], ["agents", "workflows"]]);
  });

  it("init follows a link that is the target folder itself", async () => {
    const real = createProject({});
    const folder = createProject({});
    symlinkSync(real, join(folder, "app"));
    expect((await init(["app"], folder)).code).toBe(0);
    expect(filesOf(real)).toEqual(starter);
  });

  it.each<[string, string, string]>([
    ["a file", "file", " is not a folder\nhint  no files were written; choose another folder\n"],
    ["a link to nothing", "link", " is not a folder\nhint  no files were written; choose another folder\n"],
    ["below a file", "file/app", ": not a directory\nhint  "],
    ["below a new folder, but too long", `new/${"x".repeat(300)}`, ": name too long\nhint  "],
  ])("init ends with 1, one error line and a hint when the target is %s", async (_, dir, message) => {
    const folder = createProject({ file: "mine" });
    symlinkSync("nowhere", join(folder, "link"));
    const { code, stdout, stderr } = await init([dir], folder);
    expect([code, stdout, stderr]).toEqual([1, "", expect.stringContaining(join(folder, dir) + message)]);
    expect(stderr.split("\n")).toHaveLength(3);
    expect([filesOf(folder), existsSync(join(folder, "new"))]).toEqual([["file", "link"], false]);
  });

  it("init says that it may not write to a folder, and removes what it has written", async () => {
    const folder = createProject({ "workflows/mine.ts": "" });
    chmodSync(join(folder, "workflows"), 0o555);
    const { code, stderr } = await withoutPrivileges(["init"], folder).ended;
    expect([code, stderr]).toEqual([
      1,
      `error Cannot write to ${folder}: permission denied\nhint  no files were written; choose a writable folder\n`,
    ]);
    expect([filesOf(folder), existsSync(join(folder, "agents"))]).toEqual([["workflows/mine.ts"], false]);
    chmodSync(folder, 0o555);
    expect(await withoutPrivileges(["init", "app"], folder).ended).toMatchObject({
      code: 1,
      stderr: expect.stringContaining(`error Cannot write to ${folder}/app: permission denied\n`),
    });
    chmodSync(folder, 0o755);
  });
});

it("start --strict closes the starter with one line in .env, and lets a manager approve, not the requester", async () => {
  const folder = createProject({});
  await init([], folder);
  const lines = read(folder, ".env.example").replace("# JWT_SECRET=", `JWT_SECRET=${"s".repeat(32)}`);
  writeFileSync(join(folder, ".env"), lines);
  const child = agentserve(["start", "--strict", "--port", "0", "--data", ":memory:"], { cwd: folder });
  const [base] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
  const toToken = async (...args: string[]) => (await agentserve(["token", ...args], { cwd: folder }).ended).stdout;
  const [ada, bob, grace, max] = (
    await Promise.all([
      toToken("--sub", "ada"),
      toToken("--sub", "bob"),
      toToken("--sub", "grace", "--claim", "role=manager"),
      toToken("--sub", "max", "--claim", "role=manager"),
    ])
  ).map((token) => ({ authorization: `Bearer ${token.trim()}` }));
  const send = async (path: string, headers = {}, body?: object) => {
    const posted = body && { method: "POST", body: JSON.stringify(body) };
    const response = await fetch(`${base}${path}`, {
      ...posted,
      headers: { "content-type": "application/json", ...headers },
    });
    const { error, data } = (await response.json()) as { error?: string; data?: { status?: string } };
    return [response.status, error ?? data?.status];
  };
  const request = async (id: string, by: object | undefined) => {
    const body = { input: { amount: 500, reason: "a chair" }, options: { executionId: id } };
    expect(await send("/workflows/approval/execute", by, body)).toEqual([200, "suspended"]);
    const path = `/workflows/approval/executions/${id}`;
    return {
      approve: (who?: object) => send(`${path}/resume`, who, { resumeData: { approved: true } }),
      read: (who?: object) => send(`${path}/state`, who),
      fork: (who?: object) => send(`${path}/fork`, who, {}),
    };
  };
  expect(await send("/agents/assistant/text", {}, { input: "Hello" })).toEqual([401, "Authentication required"]);
  expect((await send("/agents/assistant/text", ada, { input: "Hello" }))[0]).toBe(200);
  expect((await send("/hello"))[0]).toBe(200);
  const chair = await request("chair-1", ada);
  expect(await chair.approve(ada)).toEqual([403, "Forbidden"]);
  for (const who of [bob, undefined]) {
    expect(await chair.approve(who)).toEqual([404, "Execution chair-1 not found"]);
    expect(await chair.read(who)).toEqual([404, "Execution chair-1 not found"]);
  }
  expect(await chair.read(ada)).toEqual([200, "suspended"]);
  expect(await chair.approve(grace)).toEqual([200, "completed"]);
  expect(await chair.fork(ada)).toEqual([403, "Forbidden"]); // it may begin after the approval
  expect(await chair.fork(grace)).toEqual([200, "suspended"]);
  const desk = await request("desk-1", grace);
  expect(await desk.approve(grace)).toEqual([403, "Forbidden"]);
  expect(await desk.approve(max)).toEqual([200, "completed"]);
  for (const who of [bob, undefined]) expect(await send("/api/logs", who)).toEqual([403, "Forbidden"]);
  expect((await send("/api/logs", grace))[0]).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.ended).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/warning|error/) });
});

it("start --strict refuses to serve the starter on other addresses without JWT_SECRET, as its README says", async () => {
  const folder = createProject({});
  await init([], folder);
  // An address that no machine has: should it not be refused, nobody is served either.
  const env = { ...process.env, JWT_SECRET: "", HOST: "192.0.2.1" };
  const { code, stdout, stderr } = await runHere(["start", "--strict", "--port", "0"], { cwd: folder, env });
  expect([code, stdout, stderr]).toEqual([1, "", expect.stringContaining("can call every route\n")]);
});

// `script` of util-linux gives a process a terminal.
if (process.platform !== "linux") console.log("skipped: init in a terminal (it needs script of util-linux)");
describe.skipIf(process.platform !== "linux")("agentserve init in a terminal", () => {
  it("init asks in a terminal for folder and template, and takes Enter for the defaults", async () => {
    const folder = createProject({});
    const child = inTerminal("init", folder);
    await answer(child, /Which folder\?/, "\r");
    await answer(child, /Which template\?/, "\r");
    expect([(await child.ended).code, filesOf(folder)]).toEqual([0, starter]);
  });

  it("init writes the chosen template into the chosen folder", async () => {
    const folder = createProject({});
    const child = inTerminal("init", folder);
    await answer(child, /Which folder\?/, "my-app\r");
    await answer(child, /Which template\?/, "\u001B[B\r");
    expect([(await child.ended).code, filesOf(join(folder, "my-app"))]).toEqual([0, minimal]);
  });

  it("init asks only for what the command line leaves open", async () => {
    const folder = createProject({});
    const half = inTerminal("init half", folder);
    await answer(half, /Which template\?/, "\r");
    expect((await half.ended).stdout).not.toContain("Which folder?");
    const { code, stdout } = await inTerminal("init whole --template minimal", folder).ended;
    expect([code, stdout]).toEqual([0, expect.not.stringContaining("Which")]);
  });

  it.each([/Which folder\?/, /Which template\?/])(
    "init ends at Ctrl+C during %s without an error, and writes nothing",
    async (question) => {
      const folder = createProject({});
      const child = inTerminal("init", folder);
      if (!question.test("Which folder?")) await answer(child, /Which folder\?/, "\r");
      await answer(child, question, "\u0003");
      const { code, stdout } = await child.ended;
      expect([code, filesOf(folder)]).toEqual([1, []]);
      expect(stdout).not.toMatch(/error|Next:/);
    },
  );
});

function inTerminal(line: string, cwd: string): Child {
  // As it comes, it is no column wide.
  const command = `stty cols 100 rows 30; '${process.execPath}' '${bin}' ${line}`;
  return run("script", ["-qec", command, "/dev/null"], { cwd, stdio: ["pipe", "pipe", "pipe"] });
}

async function answer(child: Child, question: RegExp, keys: string): Promise<void> {
  await child.waitFor(question);
  child.process.stdin!.write(keys);
}

/** Root may write anywhere, unless it gives that up. */
function withoutPrivileges(args: string[], cwd: string): Child {
  if (process.getuid?.() !== 0) return agentserve(args, { cwd });
  const drop = ["--inh-caps=-all", "--bounding-set=-all", process.execPath, resolve(bin)];
  return run("setpriv", [...drop, ...args], { cwd });
}
