import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { defineAgent, defineTool, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import type { Page } from "playwright-core";
import { openConsole, type ConsoleServer } from "../console/world.ts";
import { expectNoProblems, inEachView, openPage } from "./console-page.ts";
import { secret, token } from "./fixtures.ts";

const weather = defineTool({
  description: "Tells the weather of a city",
  inputSchema: v.object({ city: v.string() }),
  execute: ({ city }) => ({ city, sky: "blue" }),
});
const assistant = defineAgent({
  id: "assistant",
  name: "Assistant",
  description: "Answers, and knows the weather",
  instructions: "Answer in one sentence.",
  model: echoModel(),
  tools: { weather },
});
const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  purpose: "Approves small expenses and asks a person about large ones",
  input: v.object({ amount: v.pipe(v.number(), v.minValue(0)), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({ id: "decide", execute: ({ data }) => data })
  .andTap({ id: "audit", execute: () => {} })
  .andThen({ id: "answer", execute: ({ data, context }) => ({ paid: data.amount, by: context.get("userId") }) });
const hostile = `<script>alert(1)</script><img src="http://stranger.test/x.png"> '"\u202e\u0000${"x".repeat(10_000)}`;
const odd = defineWorkflow({ id: "odd:one", name: hostile, purpose: hostile }).andThen({
  id: "only",
  name: hostile,
  execute: () => null,
});
const oddAgent = defineAgent({ id: "odd", name: hostile, description: hostile, instructions: "", model: echoModel() });

const config: Config = { agents: [assistant], workflows: [approval], auth: jwtAuth({ secret }) };
const problem = {
  message: 'agents.config.ts:4:12 Expected "}" but found "workflows"\nand one more line',
  hint: "close the brace of line 3",
  frame: "  2 | export default defineConfig({\n  3 |   agents: {\n> 4 |   workflows,\n    |   ^\n  5 | });",
  since: "2026-11-15T13:47:45.000Z",
};

describe("the pages, in Chromium", () => {
  it("shows agents and workflows on the landing page", async () => {
    const opened = await openPage((await serve(config)).url);
    const { page } = opened;
    expect(await page.getByRole("heading", { level: 1 }).textContent()).toMatch(/^agentserve \d/);
    expect(await page.getByRole("heading", { level: 3 }).allTextContents()).toEqual(["Assistant", "Expense approval"]);
    await expectCalm(page, "landing");
    expectNoProblems(opened);
  });

  it("says on the landing page what to write where nothing is served", async () => {
    const opened = await openPage((await serve({})).url);
    const heading = opened.page.getByRole("heading", { level: 2 });
    expect(await heading.textContent()).toBe("No agents or workflows yet");
    await expectCalm(opened.page, "empty");
    expectNoProblems(opened);
  });

  it("shows a save that cannot be loaded on the landing page until it can", async () => {
    const { url, server } = await serve(config);
    server.complain(problem);
    const opened = await openPage(url);
    const panel = opened.page.getByRole("alert");
    expect(await panel.locator(".frame").textContent()).toBe(problem.frame);
    expect(await panel.textContent()).toContain("The last good version is still being served");
    await expectCalm(opened.page, "problem");
    server.complain(undefined);
    await panel.waitFor({ state: "detached" }); // it has looked again by itself
    expectNoProblems(opened);
  });

  it("keeps the layout of the landing page whatever agents and workflows are called", async () => {
    const { url } = await serve({ agents: [oddAgent], workflows: [odd] });
    const opened = await openPage(url);
    await expectCalm(opened.page, "hostile");
    await opened.page.goto(`${url}/ui`);
    await opened.page.getByText("/workflows/odd:one/execute").click();
    await opened.page.locator(".opblock.is-open .opblock-description").waitFor();
    expectNoProblems(opened);
  });

  it("runs a workflow with a token from Swagger UI", async () => {
    const { page, faults, refusals } = await openPage(`${(await serve(config)).url}/ui`);
    await page.locator(".swagger-ui .info .title").waitFor();
    const operation = page.locator("#operations-Your_workflows-execute-workflow-approval");
    const execute = async (): Promise<string> => {
      await operation.getByRole("button", { name: "Execute", exact: true }).click();
      await operation.locator(".live-responses-table .response").waitFor();
      return operation.locator(".live-responses-table .response").innerText();
    };
    await operation.locator(".opblock-summary-control").click();
    expect(await execute()).toContain("Authentication required");
    await operation.getByRole("button", { name: "Clear" }).click();
    await page.locator(".auth-wrapper .authorize").first().click();
    await page.getByLabel("auth-bearer-value").fill(token);
    await page.locator(".modal-ux").getByRole("button", { name: "Apply credentials" }).click();
    await page.locator(".modal-ux").getByRole("button", { name: "Close" }).click();
    expect(await execute()).toMatch(/"status": "completed"[^]*"by": "ada"/);
    await inEachView(page, "ui", async () => operation.locator(".live-responses-table").scrollIntoViewIfNeeded());
    expect(faults).toEqual([]);
    expect(refusals).toEqual([expect.stringContaining("status of 401")]);
  });

  it("opens an operation of Swagger UI by its own link, under /ui/ too", async () => {
    const opened = await openPage(`${(await serve(config)).url}/ui/#/Agents/get-agents`);
    await opened.page.locator("#operations-Agents-get-agents.is-open").waitFor();
    expectNoProblems(opened);
  });

  it("shows 500 agents and 500 workflows on the landing page", async () => {
    const agents = Array.from({ length: 500 }, (_, n) =>
      defineAgent({ id: `agent-${n}`, instructions: "", model: echoModel() }),
    );
    const workflows = Array.from({ length: 500 }, (_, n) =>
      defineWorkflow({ id: `workflow-${n}`, input: v.object({ n: v.number() }) }).andThen({
        id: "only",
        execute: () => null,
      }),
    );
    const opened = await openPage((await serve({ agents, workflows })).url);
    expect(await opened.page.locator("article").count()).toBe(1_000);
    await opened.page.locator("#workflow-workflow-499 summary").click();
    expect(await opened.page.locator("#workflow-workflow-499 pre").isVisible()).toBe(true);
    expectNoProblems(opened);
  });
});

const serve = (served: Config): Promise<ConsoleServer> => openConsole({ console: false, ...served });

/** In each view nothing is wider than the window or its card, and the page has the colors of the scheme. */
const expectCalm = (page: Page, name: string): Promise<void> =>
  inEachView(page, name, async ({ colorScheme }) => {
    const { scroll, cut, paint } = await page.evaluate(() => ({
      scroll: document.documentElement.scrollWidth - innerWidth,
      cut: [...document.querySelectorAll("article, section")].filter(
        (part) => part.scrollWidth > part.clientWidth || part.getBoundingClientRect().right > innerWidth,
      ).length,
      paint: getComputedStyle(document.body).backgroundColor,
    }));
    expect([scroll <= 0, cut]).toEqual([true, 0]);
    const [red = 0] = /\d+/.exec(paint)?.map(Number) ?? [];
    expect(red > 127).toBe(colorScheme === "light");
  });
