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
const isWaiting = ({ prompt }) => prompt.at(-1).content[0].text === "wait";
const model = {
  ...echo,
  async doStream(options) {
    if (isWaiting(options)) await sleep(500);
    return echo.doStream({ ...options, prompt: short });
  },
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
  server: { limits: { requestMs: 3_600_000 } },
  [Symbol.for("agentserve.constants")]: { headersMs: 3_600_000 },
});
`;

const bytes = 2_000_000;
const rows = `[${'{"a":1},'.repeat(bytes / 8)}{}]`; // costs more in the heap than text does
const cases = [
  [
    `${bySize(60, 120)} agent calls`,
    bySize(60, 120),
    "/agents/slow/text",
    JSON.stringify({ input: Array.from({ length: bytes / 100 }, () => ({ role: "user", content: "x".repeat(68) })) }),
  ],
  [`${bySize(52, 103)} executions`, bySize(52, 103), "/workflows/slow/execute", `{"input":{"rows":${rows}}}`],
] as const;

async function start(heap: number, data: string) {
  const child = agentserve(["start", "--port", "0", "--data", data], {
    cwd: createProject({ "agents.config.ts": config }),
    env: { ...process.env, NODE_OPTIONS: `--max-old-space-size=${heap}` },
  });
  const [base] = await child.waitFor(/http:\/\/\S+/);
  const post = async (path: string, body: string): Promise<number> => {
    const headers = { "content-type": "application/json" };
    const response = await fetch(base + path, { method: "POST", headers, body });
    await response.text();
    return response.status;
  };
  return { child, post };
}

it.each(cases)("a process with a small heap survives %s of 2 MB at once", async (_, count, path, body) => {
  const { child, post } = await start(bySize(192, 1_024), ":memory:");
  const ask = (): Promise<number> => post(path, body);
  const statuses = await Promise.all(Array.from({ length: count }, ask));
  expect(new Set(statuses)).toEqual(new Set([200, 503]));
  expect(await ask()).toBe(200);
  child.process.kill("SIGTERM");
  expect(await child.ended).toMatchObject({ code: 0 });
});

it(
  "a process with a small heap survives many calls at once on conversations of 2 MB each",
  { timeout: 600_000 },
  async () => {
    const { child, post } = await start(160, "data.db");
    const toBody = (conversation: number, input: string): string =>
      JSON.stringify({ input, options: { conversationId: `c${conversation}` } });
    const long = "x".repeat(2_000_000);
    const all = Array.from({ length: bySize(20, 160) }, (_, conversation) => conversation);
    for (const conversation of all) {
      let status = 503;
      while (status === 503) status = await post("/agents/slow/text", toBody(conversation, long));
      expect(status).toBe(200);
    }
    const statuses = await Promise.all(
      all.map((conversation) => post("/agents/slow/text", toBody(conversation, "wait"))),
    );
    expect(new Set(statuses)).toEqual(new Set([200, 503]));
    let last = 503;
    while (last === 503) last = await post("/agents/slow/text", toBody(0, "wait"));
    expect(last).toBe(200);
    child.process.kill("SIGTERM");
    expect(await child.ended).toMatchObject({ code: 0 });
  },
);
