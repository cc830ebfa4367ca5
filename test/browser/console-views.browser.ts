import { defineAgent, defineSchedule, defineTool, defineWorkflow, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { openConsole } from "../console/world.ts";
import { expectAccessible, openPage } from "./console-page.ts";

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

it("shows every view of the console readable by everyone, in light and dark, on a phone and on a desktop", async () => {
  const { url, ask, server } = await openConsole(config);
  const execute = async (id: string, input: object = {}): Promise<string> =>
    (await ask(`/workflows/${id}/execute`, { json: { input } })).headers["x-execution-id"] as string;
  await execute("approval", { amount: 900, reason: "a trip" });
  const failed = await execute("broken");
  const { page, faults } = await openPage(`${url}/console#t=${server.sessions!.link}`);
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  // Runs, the inbox and agents have tests of their own.
  for (const place of [`runs/broken/${failed}`, "workflows", "workflows/approval", "schedules", "log", "routes"]) {
    await page.evaluate((to) => void (location.hash = `/${to}`), place);
    await page.getByText("Loading …").first().waitFor({ state: "detached" });
    await expectAccessible(page, `console-${place.replaceAll("/", "-")}`);
    if (place !== "schedules") continue;
    await page.setViewportSize({ width: 360, height: 800 });
    const { x = 360 } = (await page.getByRole("button", { name: "Run now" }).boundingBox()) ?? {};
    expect(x).toBeLessThan(310);
  }
  await page.evaluate(() => void (location.hash = "/traces"));
  const traces = page.getByText("POST /workflows/:id/execute");
  while ((await traces.count()) === 0) await execute("broken"); // only those after its socket is open are shown
  await traces.last().click();
  await expectAccessible(page, "console-traces");
  expect(faults).toEqual([]);
});

it("keeps an opened trace of the console open after another one was open", async () => {
  const { url, ask, server } = await openConsole(config);
  const execute = () => ask("/workflows/broken/execute", { json: { input: {} } });
  const { page } = await openPage(`${url}/console#t=${server.sessions!.link}`);
  await page.getByRole("heading", { name: "Inbox" }).waitFor();
  await page.evaluate(() => void (location.hash = "/traces"));
  const traces = page.locator("details").filter({ hasText: "POST /workflows/:id/execute" });
  while ((await traces.count()) < 2) await execute(); // only those after its socket is open are shown
  // The elements themselves: a trace that arrives late moves the others down.
  const [newer, older] = await traces.elementHandles();
  const isOpen = (trace = older): Promise<boolean> => trace!.evaluate((node) => (node as HTMLDetailsElement).open);
  await (await newer!.$("summary"))!.click();
  await (await older!.$("summary"))!.click();
  await expect.poll(() => isOpen(newer)).toBe(false);
  const shown = await traces.count();
  await execute();
  await expect.poll(() => traces.count()).toBeGreaterThan(shown);
  expect(await isOpen()).toBe(true);
});
