import { join } from "node:path";
import * as agentserve from "agentserve";
import { defineAgent } from "agentserve";
import * as models from "agentserve/models";
import { afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import { createLoader, findConfig } from "../../../src/config/load.ts";
import { openServer } from "../../../src/server/create.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { createProject } from "../../harness/project.ts";
import { createTestLogger, startTestServer, type LogRecord } from "../../harness/server.ts";
import {
  expectFailure,
  expectHealthy,
  messages,
  newPrompt,
  provider,
  settings,
  show,
  watch,
  type Ask,
} from "./provider-suite.ts";
import { apiKey, endpoints, instructions } from "./troubles.ts";

describe("a model named by text", () => {
  beforeEach(() => {
    vi.stubEnv("AI_GATEWAY_API_KEY", undefined);
    vi.stubEnv("VERCEL_OIDC_TOKEN", undefined);
  });
  afterEach(() => void vi.unstubAllEnvs());

  it.for(["dev", "start"] as const)(
    "logs in %s what to do if the provider of a model name is not installed",
    async (target) => {
      const config = { agents: [defineAgent({ id: "lost", instructions, model: "nosuch/model" })] };
      const server = await startTestServer(target, { config });
      const ask = await watch(server);
      for (const endpoint of endpoints) {
        server.logs.length = 0;
        const answer = await ask(endpoint, "lost");
        expectFailure(endpoint, answer, 502, messages[502]);
        expect(show(server.logs)).toContain("npm install @ai-sdk/nosuch");
        expect(show(server.logs)).toContain("or set AI_GATEWAY_API_KEY; then restart the server");
      }
    },
  );

  it("finds the provider of a model name in the project's packages, and only logs what it throws", async () => {
    const ask = await openProject({ FAKE_API_KEY: undefined });
    for (const endpoint of endpoints) {
      for (const agent of ["keyless", "unmade", "plain"]) {
        ask.logs.length = 0;
        const answer = await ask(endpoint, agent);
        expectFailure(endpoint, answer, 502, agent === "keyless" ? "Model rejected the credentials" : messages[502]);
        expect(answer.text).not.toMatch(/fake/i);
        expect(show(ask.logs)).toContain("FAKE_API_KEY");
      }
    }
  });

  it("answers with a model name once the key of its provider is set", async () => {
    const ask = await openProject({ FAKE_API_KEY: apiKey });
    for (const endpoint of endpoints) {
      const prompt = newPrompt();
      expectHealthy(endpoint, prompt, await ask(endpoint, "keyless", prompt));
      expect(provider.asked(prompt)[0]!.body.model).toBe("healthy");
    }
  });

  /** A project whose own `node_modules` hold a provider, packed as the AI SDK's are. */
  async function openProject(env: Record<string, string | undefined>): Promise<Ask & { logs: LogRecord[] }> {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const fake = "app/node_modules/@ai-sdk/fake";
    const folder = createProject({
      "app/agents.config.ts": `import { defineAgent, defineConfig } from "agentserve";
        const agent = (id, model) => defineAgent({ id, model, instructions: ${JSON.stringify(instructions)}, maxRetries: 0 });
        export default defineConfig({
          agents: [agent("keyless", "fake/healthy"), agent("unmade", "fake/unmade"), agent("plain", "fake/plain")],
        });`,
      [`${fake}/package.json`]: JSON.stringify({
        name: "@ai-sdk/fake",
        version: "1.0.0",
        type: "module",
        exports: { ".": { import: "./dist/index.js", default: "./dist/index.js" } },
      }),
      [`${fake}/dist/index.js`]: `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
        import { loadApiKey } from "@ai-sdk/provider-utils";
        const settings = ${JSON.stringify({ ...settings, apiKey: undefined, baseURL: provider.baseURL })};
        const key = { environmentVariableName: "FAKE_API_KEY", description: "Fake" };
        const inner = createOpenAICompatible({ ...settings, apiKey: () => loadApiKey({ ...key, apiKey: undefined }) });
        const plain = createOpenAICompatible({
          ...settings,
          apiKey() {
            throw new TypeError("Fake: FAKE_API_KEY is not text");
          },
        });
        export const createFake = () => fake;
        export const fake = {
          languageModel(id) {
            if (id === "unmade") throw new Error("Fake: FAKE_API_KEY does not know this model");
            return id === "plain" ? plain(id) : inner(id);
          },
        };`,
    });
    const logs: LogRecord[] = [];
    const own = { agentserve, "agentserve/models": models };
    const project = await createLoader(findConfig(undefined, join(folder, "app")), own).load();
    const server = openServer(
      { ...project, config: { ...project.config, backend: chosenBackend.create() } },
      { mode: "start", logger: createTestLogger(logs) },
    );
    onTestFinished(() => server.close());
    const { url } = await server.listen({ port: 0 });
    return Object.assign(await watch({ send: (path, init) => fetch(url + path, init) }), { logs });
  }
});
