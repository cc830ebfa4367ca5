import { cpSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { expect, it } from "vitest";
import { openDev } from "../dev/dev-server.ts";
import { agentserve, run } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";

const key = "the-value-of-the-key";
const toConfig = (agents: string) => `import { defineAgent, defineConfig } from "agentserve";
import { echoModel } from "agentserve/models";
const agent = (id, model) => defineAgent({ id, instructions: "Help.", model });
export default defineConfig({ agents: [${agents}], server: { cors: false } });
`;
const all = toConfig(`agent("echo", echoModel()), agent("one", "openai/gpt-5"), agent("two", "mistral/large"),
  agent("three", "azure/gpt"), agent("four", "unlisted/model")`);

/** A project whose own packages are these providers. */
function createApp(config: string, providers: readonly string[]): string {
  const files = providers.flatMap((name) => {
    const folder = `app/node_modules/@ai-sdk/${name}`;
    const manifest = { name: `@ai-sdk/${name}`, version: "1.0.0", type: "module", exports: "./index.js" };
    return [
      [`${folder}/package.json`, JSON.stringify(manifest)],
      [`${folder}/index.js`, "throw new Error('loaded');"], // it is found, not loaded
    ];
  });
  return join(createProject({ "app/agents.config.ts": config, ...Object.fromEntries(files) }), "app");
}

/** The environment without keys of whoever runs the tests. */
const { AI_GATEWAY_API_KEY: _, VERCEL_OIDC_TOKEN: __, OPENAI_API_KEY: ___, ...env } = process.env;

const missing = {
  package: {
    message: "agent two: the model mistral/large needs the package @ai-sdk/mistral",
    hint: "npm install @ai-sdk/mistral, or set AI_GATEWAY_API_KEY to use the AI gateway",
  },
  key: {
    message: "agent one: the model openai/gpt-5 needs OPENAI_API_KEY, which is not set",
    hint: "set OPENAI_API_KEY in .env or in the environment",
  },
  keys: {
    message: "agent three: the model azure/gpt needs AZURE_API_KEY and AZURE_RESOURCE_NAME, which are not set",
    hint: "set AZURE_API_KEY and AZURE_RESOURCE_NAME in .env or in the environment",
  },
};

async function examine(cwd: string, more: Record<string, string> = {}) {
  const { code, stdout } = await agentserve(["doctor", "--json"], { cwd, env: { ...env, ...more } }).ended;
  expect(stdout).not.toContain(key);
  const { findings } = JSON.parse(stdout) as { findings: { name: string; status: string; message: string }[] };
  return { code, models: findings.filter(({ name }) => name === "model") };
}

it("doctor names each agent whose model cannot answer, and the package or the variable that is missing", async () => {
  const app = createApp(all, ["openai", "azure", "unlisted"]);
  const { code, models } = await examine(app);
  expect(code).toBe(1);
  expect(models).toEqual([
    { name: "model", status: "failed", ...missing.key },
    { name: "model", status: "failed", ...missing.package },
    { name: "model", status: "failed", ...missing.keys },
    { name: "model", status: "ok", message: "agent echo: agentserve/echo" },
    { name: "model", status: "ok", message: "agent four: unlisted/model from @ai-sdk/unlisted" },
  ]);
});

it("doctor and dev name an agent whose provider package exports no default provider", async () => {
  const config = toConfig(`agent("one", "compatible/foo")`);
  const app = createApp(config, ["compatible"]);
  writeFileSync(join(app, "node_modules/@ai-sdk/compatible/index.js"), "export const createCompatible = () => {};");
  const { code, models } = await examine(app);
  const message =
    "agent one: the model compatible/foo needs another name: @ai-sdk/compatible exports no default provider";
  const hint = "create a provider with @ai-sdk/compatible, and set model to a model of it";
  expect([code, models]).toEqual([1, [{ name: "model", status: "failed", message, hint }]]);
  const dev = await openDev(app, { env });
  await expect.poll(() => dev.raw().match(/^warning .*$/gm)).toEqual([`warning ${message}`]);
});

it("doctor, dev and start refuse a project with another major version of ai, and name the command that installs it", async () => {
  const app = createApp(toConfig(`agent("echo", echoModel())`), []);
  const packages = join(app, "node_modules");
  const others = readdirSync("node_modules").filter((name) => name !== "ai" && !name.startsWith("."));
  mkdirSync(join(packages, "ai"), { recursive: true });
  for (const name of others) symlinkSync(resolve("node_modules", name), join(packages, name));
  const exports = { ".": "./index.js", "./package.json": "./package.json" };
  writeFileSync(join(packages, "ai/package.json"), JSON.stringify({ name: "ai", version: "6.0.1", exports }));
  // A copy: Node looks for packages beside the real path of a module.
  for (const name of ["bin", "dist", "package.json"])
    cpSync(name, join(packages, "agentserve", name), { recursive: true });
  const bin = join(packages, "agentserve/bin/agentserve.mjs");
  const message = "agents need version 7 of the package ai, found 6.0.1";
  for (const [command = "", ...flags] of [["doctor"], ["dev", "--port", "0"], ["start", "--port", "0"]]) {
    const { code, stdout, stderr } = await run(process.execPath, [bin, command, ...flags], { cwd: app, env }).ended;
    expect([command, code, stdout + stderr]).toEqual([command, 1, expect.stringContaining(message)]);
    expect(stdout + stderr).toContain("npm install ai@7 under Node 22 or newer: under Node 20, npm installs ai 6");
  }
});

it("doctor finds every model ready once the packages and the keys are there, and shows no value", async () => {
  const app = createApp(all, ["openai", "azure", "unlisted"]);
  const { code, models } = await examine(app, {
    OPENAI_API_KEY: key,
    AZURE_API_KEY: key,
    AZURE_RESOURCE_NAME: key,
    AI_GATEWAY_API_KEY: key,
  });
  expect([code, models.map(({ status, message }) => `${status} ${message}`)]).toEqual([
    0,
    [
      "ok agent echo: agentserve/echo",
      "ok agent one: openai/gpt-5 from @ai-sdk/openai",
      "ok agent two: mistral/large from the AI gateway",
      "ok agent three: azure/gpt from @ai-sdk/azure",
      "ok agent four: unlisted/model from @ai-sdk/unlisted",
    ],
  ]);
});

it("start warns about each agent whose model cannot answer, and serves", async () => {
  const cwd = createApp(all, ["openai", "azure", "unlisted"]);
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], { cwd, env });
  const [, url = ""] = await child.waitFor(/(http:\/\/\S+).* ready in/);
  expect((await fetch(`${url}/agents`)).status).toBe(200);
  child.process.kill("SIGTERM");
  const { stderr } = await child.ended;
  const toText = ({ message, hint }: (typeof missing)["key"]) => `warning ${message}\nhint    ${hint}\n`;
  expect(stderr).toContain([missing.key, missing.package, missing.keys].map(toText).join(""));
});

it("dev warns of models that cannot answer at its start, and after a save only of new ones", async () => {
  const folder = createApp(toConfig(`agent("one", "openai/gpt-5")`), ["openai"]);
  const dev = await openDev(folder, { env });
  const warnings = () => dev.raw().match(/^warning .*$/gm) ?? [];
  await expect.poll(warnings).toEqual([`warning ${missing.key.message}`]);
  const both = toConfig(`agent("one", "openai/gpt-5"), agent("two", "mistral/large")`);
  await dev.said(/hint +npm install @ai-sdk\/mistral/, () => dev.save({ "agents.config.ts": both }));
  expect(warnings()).toEqual([`warning ${missing.key.message}`, `warning ${missing.package.message}`]);
});
