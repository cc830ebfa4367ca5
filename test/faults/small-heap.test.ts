import { expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { bySize } from "../harness/size.ts";

const config = `
import { setTimeout as sleep } from "node:timers/promises";
import { defineAgent, defineConfig, defineWorkflow } from "agentserve";
import { echoModel } from "agentserve/models";

const echo = echoModel();
const short = [{ role: "user", content: [{ type: "text", text: "ok" }] }];
const model = {
  ...echo,
  async doGenerate(options) {
    await sleep(500);
    return echo.doGenerate({ ...options, prompt: short });
  },
};
const slow = defineWorkflow({ id: "slow" }).andThen({ id: "wait", execute: async ({ data }) => {
  await sleep(500);
  return data.rows.length;
} });
export default defineConfig({
  agents: [defineAgent({ id: "slow", instructions: "", model })],
  workflows: [slow],
  server: { limits: { headersMs: 3_600_000, requestMs: 3_600_000 } },
});
`;

const bytes = 2_000_000;
const rows = `[${'{"a":1},'.repeat(bytes / 8)}{}]`; // costs more in the heap than text does
const cases = [
  [
    "120 agent calls",
    120,
    "/agents/slow/text",
    JSON.stringify({ input: Array.from({ length: bytes / 100 }, () => ({ role: "user", content: "x".repeat(68) })) }),
  ],
  ["103 executions", 103, "/workflows/slow/execute", `{"input":{"rows":${rows}}}`],
] as const;

it.each(cases)("a process with a small heap survives %s of 2 MB at once", async (_, count, path, body) => {
  const heap = bySize(384, 1_024);
  const child = agentserve(["start", "--port", "0", "--data", ":memory:"], {
    cwd: createProject({ "agents.config.ts": config }),
    env: { ...process.env, NODE_OPTIONS: `--max-old-space-size=${heap}` },
  });
  const [base] = await child.waitFor(/http:\/\/\S+/);
  const ask = async (): Promise<number> => {
    const response = await fetch(base + path, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body,
    });
    await response.text();
    return response.status;
  };
  const statuses = await Promise.all(Array.from({ length: count }, ask));
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect(await ask()).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.ended).toMatchObject({ code: 0 });
});
