import { mkdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium, type Browser, type Page } from "playwright-core";
import * as v from "valibot";
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from "vitest";
import { defineAgent, defineTool, defineWorkflow, jwtAuth, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import { embedded } from "../../src/backends/embedded/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { createTestLogger } from "../harness/server.ts";
import { findChromium } from "./chromium.ts";
import { secret, token } from "./fixtures.ts";

const folder = process.env["SCREENSHOTS"] ?? join(tmpdir(), "agentserve-screenshots");
mkdirSync(folder, { recursive: true });

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
  let browser: Browser;
  beforeAll(async () => {
    const args = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"];
    browser = await chromium.launch({ executablePath: findChromium(), args: [...args, "--no-proxy-server"] });
  });
  afterAll(() => browser?.close());

  describe.each(["light", "dark"] as const)("in a %s scheme", (colorScheme) => {
    it.each([360, 1280])("show what is served, %i pixels wide", async (width) => {
      const { base } = await serve(config);
      const { page, faults } = await open(base, { colorScheme, width });
      expect(await page.getByRole("heading", { level: 1 }).textContent()).toMatch(/^agentserve \d/);
      expect(await page.getByRole("heading", { level: 3 }).allTextContents()).toEqual([
        "Assistant",
        "Expense approval",
      ]);
      await expectCalm(page, colorScheme);
      await shoot(page, `landing-${colorScheme}-${width}`);
      expect(faults).toEqual([]);
    });

    it.each([360, 1280])("say what to write where nothing is served, %i pixels wide", async (width) => {
      const { base } = await serve({});
      const { page, faults } = await open(base, { colorScheme, width });
      expect(await page.getByRole("heading", { level: 2 }).textContent()).toBe("No agents or workflows yet");
      await expectCalm(page, colorScheme);
      await shoot(page, `empty-${colorScheme}-${width}`);
      expect(faults).toEqual([]);
    });

    it.each([360, 1280])("show a save that cannot be loaded until it can, %i pixels wide", async (width) => {
      const { base, server } = await serve(config);
      server.complain(problem);
      const { page, faults } = await open(base, { colorScheme, width });
      const panel = page.getByRole("alert");
      expect(await panel.locator(".frame").textContent()).toBe(problem.frame);
      expect(await panel.textContent()).toContain("The last good version is still being served");
      await expectCalm(page, colorScheme);
      await shoot(page, `problem-${colorScheme}-${width}`);
      server.complain(undefined);
      await panel.waitFor({ state: "detached" }); // it has looked again by itself
      expect(faults).toEqual([]);
    });

    it.each([360, 1280])("keep their layout whatever things are called, %i pixels wide", async (width) => {
      const { base } = await serve({ agents: [oddAgent], workflows: [odd] });
      const { page, faults } = await open(base, { colorScheme, width });
      await expectCalm(page, colorScheme);
      await shoot(page, `hostile-${colorScheme}-${width}`);
      await page.goto(`${base}/ui`);
      await page.getByText("/workflows/odd:one/execute").click();
      await page.locator(".opblock.is-open .opblock-description").waitFor();
      await shoot(page, `hostile-ui-${colorScheme}-${width}`);
      expect(faults).toEqual([]);
    });

    it.each([360, 1280])("run a workflow with a token from Swagger UI, %i pixels wide", async (width) => {
      const { base } = await serve(config);
      const { page, faults, asked } = await open(`${base}/ui`, { colorScheme, width });
      await page.locator(".swagger-ui .info .title").waitFor();
      await shoot(page, `ui-${colorScheme}-${width}`);
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
      await shoot(page, `ui-authorize-${colorScheme}-${width}`);
      await page.locator(".modal-ux").getByRole("button", { name: "Apply credentials" }).click();
      await page.locator(".modal-ux").getByRole("button", { name: "Close" }).click();
      expect(await execute()).toMatch(/"status": "completed"[^]*"by": "ada"/);
      await operation.locator(".live-responses-table").scrollIntoViewIfNeeded();
      await page.screenshot({ path: join(folder, `ui-executed-${colorScheme}-${width}.png`) });
      expect(asked.filter((url) => !url.startsWith(`${base}/`) && !url.startsWith("data:"))).toEqual([]);
      expect(faults.filter((fault) => !fault.includes("status of 401"))).toEqual([]); // the one that was meant
    });
  });

  it("follows an operation's own link, and works under /ui/, too", async () => {
    const { base } = await serve(config);
    const { page, faults } = await open(`${base}/ui/#/Agents/get-agents`, { colorScheme: "light", width: 1280 });
    await page.locator("#operations-Agents-get-agents.is-open").waitFor();
    expect(faults).toEqual([]);
  });

  it("stay quick with 500 agents and 500 workflows", async () => {
    const agents = Array.from({ length: 500 }, (_, n) =>
      defineAgent({ id: `agent-${n}`, instructions: "", model: echoModel() }),
    );
    const workflows = Array.from({ length: 500 }, (_, n) =>
      defineWorkflow({ id: `workflow-${n}`, input: v.object({ n: v.number() }) }).andThen({
        id: "only",
        execute: () => null,
      }),
    );
    const { base } = await serve({ agents, workflows });
    const { page, faults } = await open(base, { colorScheme: "light", width: 1280 });
    expect(await page.locator("article").count()).toBe(1_000);
    await page.screenshot({ path: join(folder, "many.png") });
    await page.locator("#workflow-workflow-499 summary").click();
    expect(await page.locator("#workflow-workflow-499 pre").isVisible()).toBe(true);
    expect(faults).toEqual([]);
  });

  interface View {
    colorScheme: "light" | "dark";
    width: number;
  }

  /** A page, what it asked for, and all that a browser complains of: errors, refusals by the policy, other origins. */
  async function open(url: string, { colorScheme, width }: View) {
    const context = await browser.newContext({ colorScheme, viewport: { width, height: 800 } });
    onTestFinished(() => context.close());
    const page = await context.newPage();
    const asked: string[] = [];
    const faults: string[] = [];
    const { origin } = new URL(url);
    await context.route("**/*", (route) => {
      const target = route.request().url();
      asked.push(target);
      const isOwn = new URL(target).origin === origin;
      if (!isOwn) faults.push(`asked for ${target}`);
      return isOwn ? route.continue() : route.abort();
    });
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) faults.push(message.text());
    });
    page.on("pageerror", (error) => void faults.push(String(error)));
    page.on("dialog", (dialog) => {
      faults.push(`a dialog: ${dialog.message()}`);
      void dialog.dismiss();
    });
    await page.goto(url);
    return { page, asked, faults };
  }
});

async function serve(served: Config): Promise<{ base: string; server: OpenServer }> {
  const project = toProject({ backend: embedded({ path: ":memory:" }), console: false, ...served });
  const server = openServer(project, { mode: "dev", logger: createTestLogger([]) });
  onTestFinished(() => server.close());
  const { url } = await server.listen({ port: 0 });
  return { base: new URL(url).origin, server };
}

/** Nothing is wider than the window or its card, and the page has the colours that were asked for. */
async function expectCalm(page: Page, colorScheme: "light" | "dark"): Promise<void> {
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
}

const shoot = (page: Page, name: string): Promise<unknown> =>
  page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
