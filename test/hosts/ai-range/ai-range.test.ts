import { execFileSync } from "node:child_process";
import { globSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { describe, expect, it, onTestFinished } from "vitest";
import { run } from "../../harness/cli.ts";
import { createFolder } from "../../harness/folders.ts";
import { install, npm, pack, userEnv } from "../../harness/packed.ts";
import { installHost } from "../install-host.ts";

/** Projects with the lowest and the newest `ai` of the range. */
const trees = ["lowest", "newest"];
/** It pins an `ai` that is neither of them. */
const chat = ["@ai-sdk/react@4.0.167", "react@19.3.1"];

/** The places of a package in a project, at any depth. */
const copiesOf = (name: string, folder: string): string[] =>
  globSync(`{node_modules,node_modules/**/node_modules}/${name}/package.json`, { cwd: folder });

describe.each(trees)("beside the ai of a project: %s", (tree) => {
  it("installs agentserve without a second copy of ai, and without a conflict", () => {
    const folder = installHost(`ai-range/${tree}`, { agentserve: true });
    expect(copiesOf("ai", folder)).toEqual(["node_modules/ai/package.json"]);
    const ours = createRequire(join(folder, "node_modules/agentserve/dist/index.mjs")).resolve("ai");
    expect(ours).toBe(createRequire(join(folder, "x.mjs")).resolve("ai"));
    const { problems = [] } = JSON.parse(npm(["ls", "--all", "--json"], folder));
    // It is installed without an entry in package.json, which npm calls extraneous.
    expect(problems.filter((problem: string) => !problem.startsWith("extraneous"))).toEqual([]);
  });
});

it.each(trees)("compiles models and tools of the project with our types: ai %s", (tree) => {
  const folder = installHost(`ai-range/${tree}`, { agentserve: true });
  const file = join(folder, "types.ts");
  onTestFinished(() => rmSync(file));
  writeFileSync(
    file,
    `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
    import { defineAgent } from "agentserve";
    import { echoModel, scriptedModel } from "agentserve/models";
    import { generateText, tool, wrapLanguageModel, type LanguageModel } from "ai";
    import { z } from "zod";
    const models: LanguageModel[] = [echoModel(), scriptedModel(["hi"])];
    const own = createOpenAICompatible({ name: "own", baseURL: "http://127.0.0.1:1" })("model");
    const time = tool({ description: "", inputSchema: z.object({}), execute: () => "now" });
    export const agent = defineAgent({ id: "a", instructions: "", model: own, tools: { time } });
    export const answer = () => generateText({ model: models[0]!, prompt: "hi" });
    export const wrapped = wrapLanguageModel({ model: echoModel(), middleware: [] });`,
  );
  const options = ["--noEmit", "--strict", "--skipLibCheck", "--module", "nodenext", "--target", "es2024"];
  execFileSync(process.execPath, [resolve("node_modules/typescript/bin/tsc"), "--ignoreConfig", ...options, file], {
    stdio: "inherit",
  });
});

it.each(trees)("passes the agent suites with ai %s", async (tree) => {
  installHost(`ai-range/${tree}`);
  const child = run("npm", ["run", "test:ai"], { env: { ...process.env, AI_RANGE: tree } });
  const { code, stdout, stderr } = await child.ended;
  expect(stdout.match(/^failed: .*$/gm) ?? []).toEqual([]);
  expect(code, stderr).toBe(0);
});

it("uses the ai that @ai-sdk/react pins, in a project that has it", () => {
  const folder = createApp();
  install(folder, ...chat);
  install(folder, pack(folder));
  expect(copiesOf("ai", folder)).toEqual(["node_modules/ai/package.json"]);
});

it("uses the ai that @ai-sdk/react pins after npm dedupe, if npm has chosen a newer one", () => {
  const folder = createApp();
  install(folder, pack(folder), ...chat);
  npm(["dedupe", "--prefer-offline", "--no-audit", "--no-fund"], folder);
  expect(copiesOf("ai", folder)).toEqual(["node_modules/ai/package.json"]);
});

describe("without ai", () => {
  const config = `import { defineAgent, defineConfig, defineWorkflow } from "agentserve";
    import { echoModel } from "agentserve/models";
    export default defineConfig({
      agents: AGENTS,
      workflows: [defineWorkflow({ id: "w" }).andThen({ id: "only", execute: () => "done" })],
      server: { cors: false },
    });`;
  const agents = `[defineAgent({ id: "a", instructions: "", model: echoModel() })]`;

  async function serve(folder: string, list: string) {
    writeFileSync(join(folder, "agents.config.ts"), config.replace("AGENTS", list));
    const child = run("npx", ["agentserve", "start", "--port", "0"], { cwd: folder, env: userEnv, detached: true });
    const [base] = await child.waitFor(/http:\/\/\S+:\d+/);
    const post = async (path: string, body: object) => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(base + path, { method: "POST", body: JSON.stringify(body), headers });
      return { status: response.status, body: (await response.json()) as any };
    };
    const stop = async () => {
      process.kill(-child.process.pid!, "SIGINT");
      return child.ended;
    };
    return { post, stop };
  }

  it("serves workflows without ai; an agent's call is a 502, and start, log and doctor name npm install ai", async () => {
    const folder = createApp();
    install(folder, "--legacy-peer-deps", pack(folder)); // as a package manager that does not install peers
    expect(copiesOf("ai", folder)).toEqual([]);

    const plain = await serve(folder, "[]");
    expect((await plain.post("/workflows/w/execute", { input: {} })).body.data.result).toBe("done");
    expect((await plain.stop()).stderr).not.toContain("package ai");

    const withAgent = await serve(folder, agents);
    expect((await withAgent.post("/workflows/w/execute", { input: {} })).body.data.result).toBe("done");
    for (const [endpoint, more] of Object.entries({
      text: {},
      stream: {},
      "stream-object": { schema: {} },
      chat: {},
    })) {
      const input = endpoint === "chat" ? [{ role: "user", parts: [{ type: "text", text: "hi" }] }] : "hi";
      const answer = await withAgent.post(`/agents/a/${endpoint}`, { input, ...more });
      expect([endpoint, answer.status, answer.body.error]).toEqual([endpoint, 502, "Model call failed"]);
    }
    const { stdout, stderr } = await withAgent.stop();
    expect(stderr).toContain("agents need the package ai, which is not installed");
    expect(stderr).toContain("npm install ai");
    expect(stdout + stderr).toContain("then restart the server");

    const doctor = run("npx", ["agentserve", "doctor", "--json"], { cwd: folder, env: userEnv });
    const { findings } = JSON.parse((await doctor.ended).stdout);
    expect(findings.filter(({ name }: { name: string }) => name === "model")).toEqual([
      {
        name: "model",
        status: "failed",
        message: "agents need the package ai, which is not installed",
        hint: "npm install ai@7",
      },
    ]);
  });
});

function createApp(): string {
  const folder = createFolder("ai");
  writeFileSync(join(folder, "package.json"), JSON.stringify({ name: "app", private: true, type: "module" }));
  return folder;
}
