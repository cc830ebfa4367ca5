import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { defineAgent, defineSchedule, defineTool, defineWorkflow, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import type { Page } from "playwright-core";
import * as v from "valibot";
import { describe, expect, it, onTestFinished } from "vitest";
import { embedded } from "../../src/backends/embedded/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { createTestLogger } from "../harness/server.ts";
import { eventually } from "../harness/waiting.ts";
import { expectAccessible, openPage } from "./console-page.ts";

const folder = process.env["SCREENSHOTS"] ?? join(tmpdir(), "agentserve-screenshots");
mkdirSync(folder, { recursive: true });

const hostile = `<img src=x onerror=alert(1)>"'&lt;\u202e\u001b[31m<script>alert(2)</script>`;
const shown = `<img src=x onerror=alert(1)>"'&lt;\\u202E\\u001B[31m<script>alert(2)</script>`;

const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Approves small expenses and asks a person about large ones",
  input: v.object({ amount: v.pipe(v.number(), v.minValue(0)), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean(), note: v.optional(v.string()) }),
})
  .andThen({
    id: "decide",
    execute: async ({ data, resumeData, suspend }) => {
      if (data.amount <= 100) return { ...data, approved: true };
      if (!resumeData) return suspend(`Approve ${data.amount} for ${data.reason}?`, data);
      return { ...data, approved: resumeData.approved };
    },
  })
  .andTap({ id: "audit", execute: ({ data, logger }) => logger.info("Expense decided", { approved: data.approved }) })
  .andThen({ id: "answer", execute: ({ data }) => ({ approved: data.approved, amount: data.amount }) });
const broken = defineWorkflow({ id: "broken", name: "Import of orders" })
  .andThen({ id: "read", execute: () => ({ order: 17 }) })
  .andThen({
    id: "parse",
    execute: () => {
      throw new TypeError("Cannot read properties of undefined (reading 'total')");
    },
  });
const assistant = defineAgent({
  id: "assistant",
  name: "Assistant",
  description: "Answers questions and knows the weather",
  instructions: "You are a friendly assistant. Answer in one sentence.",
  model: echoModel(),
  tools: {
    weather: defineTool({
      description: "Returns the weather in a city",
      inputSchema: v.object({ city: v.string() }),
      execute: ({ city }) => ({ city, sky: "blue" }),
    }),
  },
});
const nightly = defineSchedule({
  id: "nightly",
  cron: "0 3 * * *",
  workflow: approval,
  input: { amount: 1, reason: "x" },
});
const config: Config = { agents: [assistant], workflows: [approval, broken], schedules: [nightly] };

const odd = defineWorkflow({ id: "odd", name: hostile, purpose: hostile }).andThen({
  id: "only",
  name: hostile,
  purpose: hostile,
  execute: ({ logger }) => {
    logger.info(hostile, { [hostile]: hostile, error: new Error(hostile) });
    throw new Error(hostile);
  },
});

describe("the views of the console", () => {
  it.each(["light", "dark"] as const)(
    "are readable by everyone, and fit 360 and 1280 pixels (%s)",
    async (colorScheme) => {
      const { url, post, signIn } = await serve(config);
      const { executionId } = await post("/workflows/approval/execute", { input: { amount: 900, reason: "a trip" } });
      await post("/workflows/approval/execute", { input: { amount: 12, reason: "lunch" } });
      await post("/workflows/broken/execute", { input: {} });
      const { items } = await get<{ items: { executionId: string }[] }>(url, "/executions?status=error");
      await post("/agents/assistant/text", { input: "What is the weather?", options: { conversationId: "c1" } });
      const places = {
        inbox: "/inbox",
        runs: "/runs",
        run: `/runs/approval/${executionId}`,
        failed: `/runs/broken/${items[0]!.executionId}`,
        agents: "/agents",
        agent: "/agents/assistant",
        chat: "/agents/assistant/c1",
        workflows: "/workflows",
        workflow: "/workflows/approval",
        schedules: "/schedules",
        log: "/log",
        traces: "/traces",
        routes: "/routes",
      };
      const { page, faults } = await openPage(signIn(), { colorScheme });
      await page.getByRole("heading", { name: "Inbox" }).waitFor();
      for (const [name, place] of Object.entries(places)) {
        await page.evaluate((to) => void (location.hash = to), place);
        if (name === "traces") await openTrace(page, () => post("/workflows/broken/execute", { input: {} }));
        await page.getByText("Loading …").first().waitFor({ state: "detached" });
        for (const width of [360, 1280]) {
          await page.setViewportSize({ width, height: 800 });
          await eventually(() => expectAccessible(page));
          if (name === "schedules") {
            const { x = width } = (await page.getByRole("button", { name: "Run now" }).boundingBox()) ?? {};
            expect(x).toBeLessThan(width - 50);
          }
          await page.screenshot({
            path: join(folder, `console-${name}-${colorScheme}-${width}.png`),
            fullPage: name !== "log",
          });
        }
      }
      expect(faults).toEqual([]);
    },
  );

  it("show hostile names, purposes, log records, errors and spans as texts", async () => {
    const { url, post, signIn } = await serve({ workflows: [odd] });
    const { page, faults } = await openPage(signIn());
    const go = (to: string): Promise<void> => page.evaluate((place) => void (location.hash = place), to);
    await go("/workflows");
    await page.getByRole("link", { name: shown }).waitFor();
    await go("/workflows/odd");
    await page.getByRole("heading", { name: shown }).waitFor();
    await go("/traces");
    await openTrace(page, () => post("/workflows/odd/execute", { input: {} }));
    await go("/log");
    await page.getByText(shown).first().waitFor();
    const { items } = await get<{ items: { executionId: string }[] }>(url, "/executions");
    await go(`/runs/odd/${items[0]!.executionId}`);
    await page.getByText(shown).first().waitFor();
    await go(`/runs/${encodeURIComponent(hostile)}/${encodeURIComponent(hostile)}`);
    await page.getByRole("alert").first().waitFor();
    await go(`/workflows/${encodeURIComponent(hostile)}`);
    await page.getByRole("alert").first().waitFor();
    expect(await page.locator("img, main script").count()).toBe(0);
    expect(faults).toEqual([]);
  });

  /** Serves a config as `dev` does. */
  async function serve(served: Config) {
    const project = toProject({ backend: embedded({ path: ":memory:" }), ...served });
    const server = openServer(project, { mode: "dev", logger: createTestLogger([]) });
    onTestFinished(() => server.close());
    const { url } = await server.listen({ port: 0 });
    const post = async (path: string, body: unknown): Promise<any> => {
      const headers = { "content-type": "application/json" };
      const response = await fetch(url + path, { method: "POST", headers, body: JSON.stringify(body) });
      return ((await response.json()) as { data?: unknown }).data;
    };
    return { url, post, signIn: () => `${url}/console#t=${server.sessions!.link}` };
  }
});

/** Makes a trace, and opens it. The page hears only of those that begin after its socket is open. */
async function openTrace(page: Page, make: () => Promise<unknown>): Promise<void> {
  const traces = page.getByText("POST /workflows/:id/execute");
  while ((await traces.count()) === 0) await make();
  await traces.last().click();
}

async function get<T>(url: string, path: string): Promise<T> {
  return ((await (await fetch(url + path)).json()) as { data: T }).data;
}
