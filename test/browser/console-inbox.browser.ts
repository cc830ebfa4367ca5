import { andWorkflow, defineAgent, defineTool, defineWorkflow, type Config } from "agentserve";
import { echoModel } from "agentserve/models";
import type { Page } from "playwright-core";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openConsole, type ConsoleServer } from "../console/world.ts";
import { until } from "../harness/waiting.ts";
import { expectAccessible, openPage, tabTo } from "./console-page.ts";

const approval = defineWorkflow({
  id: "approval",
  input: v.object({ amount: v.number() }),
  resumeSchema: v.object({
    approved: v.boolean(),
    note: v.pipe(v.string(), v.minLength(3, "expected at least 3 characters")),
  }),
}).andThen({
  id: "decide",
  execute: async ({ data, resumeData, suspend }) =>
    resumeData ?? suspend(`Approve ${data.amount}?`, { amount: data.amount, by: "Ada" }, { timeout: "2d" }),
});
/** Its schema is for the step inside. The workflow around it has another one. */
const child = defineWorkflow({ id: "child", resumeSchema: v.object({ code: v.number() }) }).andThen({
  id: "ask",
  execute: async ({ resumeData, suspend }) => resumeData ?? suspend("Which code?"),
});
const parent = defineWorkflow({ id: "parent", resumeSchema: v.object({ approved: v.boolean() }) })
  .andWorkflow({ id: "inner", workflow: child })
  .andForEach({
    id: "each",
    items: () => [{}],
    step: andWorkflow({ id: "one", workflow: child }),
  });
const long = defineWorkflow({ id: "long" }).andThen({
  id: "show",
  execute: async ({ resumeData, suspend }) => resumeData ?? suspend("Read this", { text: "x".repeat(20_000) }),
});
const pay = defineTool({
  description: "Pays an amount",
  inputSchema: v.object({ amount: v.number() }),
  needsApproval: true,
  execute: ({ amount }) => ({ paid: amount }),
});
const payer = defineAgent({ id: "payer", instructions: "", model: echoModel(), tools: { pay } });
const config: Config = { workflows: [approval, parent, long], agents: [payer] };

describe("the inbox of the console", () => {
  it("shows a run that begins to wait with its data and deadline, and keeps it after a refused answer", async () => {
    const server = await openConsole(config);
    const { page, faults } = await openPage(`${server.url}/console`);
    await page.getByText("Nothing waits for a person").waitFor();
    await start(server, "run-1", 500);
    const entry = page.getByRole("article", { name: "Approve 500?" });
    await entry.getByText('"Ada"').waitFor();
    expect(await entry.getByText(/deadline in (2 days|47 h)/).count()).toBe(1);
    await entry.getByLabel("note").fill("no");
    await entry.getByRole("button", { name: "Send answer" }).click();
    await entry.getByText("expected at least 3 characters").waitFor();
    expect(await entry.getByLabel("note").getAttribute("aria-invalid")).toBe("true");
    expect(await statusOf(server, "run-1")).toBe("suspended");
    expect(faults).toEqual([]);
  });

  it("leaves a form of the inbox alone while it is filled in, and says that it was answered elsewhere", async () => {
    const server = await openConsole(config);
    await start(server, "run-1", 1);
    const { page, faults } = await openPage(`${server.url}/console#/inbox`);
    const note = page.getByRole("article", { name: "Approve 1?" }).getByLabel("note");
    await note.pressSequentially("be");
    const element = await note.elementHandle();
    for (const n of [2, 3]) await start(server, `run-${n}`, n);
    await page.getByRole("article", { name: "Approve 3?" }).waitFor();
    await page.keyboard.type("gun");
    expect(await page.evaluate((one) => one === document.activeElement, element)).toBe(true);
    expect(await note.inputValue()).toBe("begun");
    expect(await headings(page)).toEqual(["Approve 1?", "Approve 2?", "Approve 3?"]);
    await answer(server, "run-2");
    await page.getByRole("article", { name: "Approve 2?" }).waitFor({ state: "detached" });
    await answer(server, "run-1");
    await page.getByText("answered elsewhere").waitFor();
    expect(await note.inputValue()).toBe("begun");
    await page.getByRole("button", { name: "Remove" }).click();
    expect(await headings(page)).toEqual(["Approve 3?"]);
    expect(faults).toEqual([]);
  });

  it("reads large data of the inbox on request, and takes any JSON for a step without a schema", async () => {
    const server = await openConsole(config);
    await server.ask("/workflows/long/execute", { json: { input: {}, options: { executionId: "run-1" } } });
    const { page, faults } = await openPage(`${server.url}/console`);
    const entry = page.getByRole("article", { name: "Read this" });
    await entry.getByRole("button", { name: "Read 20 KB" }).click();
    await entry.getByText("xxxx").waitFor();
    await entry.getByRole("textbox").fill('{ "isRead": [1, 2] }');
    await entry.getByRole("button", { name: "Send answer" }).click();
    await entry.waitFor({ state: "detached" });
    const read = async () => (await server.ask("/workflows/long/executions/run-1/state")).body.data;
    await until(async () => (await read()).status === "completed", "the end of the run");
    expect(await read()).toMatchObject({ result: { isRead: [1, 2] } });
    expect(faults).toEqual([]);
  });

  it("shows a form of the schema of a sub-workflow in the inbox, also in a loop", async () => {
    const server = await openConsole(config);
    await server.ask("/workflows/parent/execute", { json: { input: {}, options: { executionId: "run-1" } } });
    const { page, faults } = await openPage(`${server.url}/console`);
    const entry = page.getByRole("article", { name: "Which code?" });
    for (const step of ["inner/ask", "each/0/one/ask"]) {
      await entry.getByText(`step ${step}`).waitFor();
      expect(await entry.getByLabel("approved").count()).toBe(0);
      await entry.getByLabel("code").fill("7");
      await entry.getByRole("button", { name: "Send answer" }).click();
    }
    await page.getByText("Nothing waits for a person").waitFor();
    const { body } = await server.ask("/workflows/parent/executions/run-1/state");
    expect(body.data.result).toEqual([{ code: 7 }]);
    expect(faults).toEqual([]);
  });

  it("counts waiting runs in the navigation of every view", async () => {
    const server = await openConsole(config);
    const { page } = await openPage(`${server.url}/console#/runs`);
    const link = page.getByRole("navigation", { name: "Console" }).getByRole("link", { name: /^Inbox/ });
    await page.getByText("No runs yet").waitFor();
    expect(await link.textContent()).toBe("Inbox");
    await start(server, "run-1", 1);
    await start(server, "run-2", 2);
    await page.getByRole("link", { name: "Inbox 2" }).waitFor();
    await answer(server, "run-1");
    await page.getByRole("link", { name: "Inbox 1" }).waitFor();
  });

  it("shows older waiting runs page by page, at most 1,000, and opens their forms on request", async () => {
    const server = await openConsole(config);
    const ids = Array.from({ length: 1_020 }, (_, n) => `run-${n}`);
    for (let at = 0; at < ids.length; at += 20)
      await Promise.all(ids.slice(at, at + 20).map((id) => start(server, id, Number(id.slice(4)))));
    const { page, faults } = await openPage(`${server.url}/console`);
    const entries = page.getByRole("article");
    const older = page.getByRole("button", { name: "Show older ones" });
    const forms = page.getByRole("button", { name: "Send answer" });
    for (let shown = 100; shown <= 1_000; shown += 100) {
      await until(async () => (await entries.count()) === shown, `${shown} entries`);
      if (shown < 1_000) await older.click();
    }
    await page.getByText("The newest 1,000 are shown.").waitFor();
    expect(await older.count()).toBe(0);
    expect(await forms.count()).toBeLessThanOrEqual(200);
    const last = entries.filter({ hasText: "Approve 1019?" });
    expect(await last.getByLabel("note").count()).toBe(0);
    await last.getByRole("button", { name: "Answer …" }).press("Enter");
    await last.getByLabel("note").waitFor();
    await tabTo(page, /^approved/);
    await page.keyboard.press("Tab");
    await page.keyboard.type("fine");
    await page.keyboard.press("Enter");
    await last.waitFor({ state: "detached" });
    expect(await statusOf(server, "run-1019")).toBe("completed");
    await page.getByRole("link", { name: "Runs" }).last().click();
    await page.getByRole("link", { name: "run-1018" }).waitFor();
    expect(await page.getByLabel("Waits for").inputValue()).toBe("person");
    await page.getByRole("link", { name: "Inbox 99+" }).click();
    await older.waitFor();
    expect(await entries.count()).toBeLessThan(200);
    expect(faults).toEqual([]);
  });

  it("keeps a form that newer waiting runs push off the page", async () => {
    const server = await openConsole(config);
    for (let n = 0; n < 100; n++) await start(server, `run-${n}`, n);
    const { page, faults } = await openPage(`${server.url}/console`);
    const first = page.getByRole("article", { name: "Approve 0?" });
    await first.getByLabel("note").pressSequentially("be");
    for (let n = 100; n < 103; n++) await start(server, `run-${n}`, n);
    await page.getByRole("article", { name: "Approve 102?" }).waitFor();
    expect((await headings(page)).slice(0, 3)).toEqual(["Approve 0?", "Approve 1?", "Approve 2?"]);
    await page.keyboard.type("gun");
    await page.keyboard.press("Enter");
    await first.waitFor({ state: "detached" });
    expect(await resultOf(server, "run-0")).toEqual({ approved: false, note: "begun" });
    await answer(server, "run-1");
    await page.getByRole("article", { name: "Approve 1?" }).waitFor({ state: "detached" });
    expect(faults).toEqual([]);
  });

  it("approves and denies tool calls in the inbox, with a reason", async () => {
    const server = await openConsole(config);
    for (const amount of [5, 7]) {
      const input = `pay ${JSON.stringify({ amount })}`;
      const options = { conversationId: `talk-${amount}` };
      await server.ask("/agents/payer/text", { json: { input, options } });
    }
    const { page, faults } = await openPage(`${server.url}/console`);
    const calls = page.getByRole("article", { name: "May payer call pay?" });
    await calls.nth(1).waitFor();
    await calls.filter({ hasText: "amount: 5" }).getByRole("button", { name: "Approve" }).click();
    await page.getByText("The call of pay was approved.").waitFor();
    await calls.getByLabel("Reason").fill("too much");
    await calls.getByRole("button", { name: "Deny" }).click();
    await page.getByText("The call of pay was denied.").waitFor();
    await page.getByText("Nothing waits for a person").waitFor();
    const messages = async (id: string): Promise<string> =>
      (await server.ask(`/agents/payer/conversations/${id}`)).text;
    await until(async () => (await messages("talk-5")).includes('"paid":5'), "the call that was approved");
    await until(async () => (await messages("talk-7")).includes("too much"), "the reason of the denial");
    expect(faults).toEqual([]);
  });

  it("says that a tool call was decided elsewhere while its reason is written", async () => {
    const server = await openConsole(config);
    const json = { input: 'pay {"amount":5}', options: { conversationId: "talk" } };
    await server.ask("/agents/payer/text", { json });
    const { page } = await openPage(`${server.url}/console`);
    await page.getByLabel("Reason").fill("too much");
    const [{ approvalId }] = (await server.ask("/approvals")).body.data.items;
    await server.ask(`/approvals/${approvalId}`, { json: { approved: true } });
    await page.getByRole("button", { name: "Deny" }).click();
    await page
      .getByText(/Already decided|answered elsewhere/)
      .first()
      .waitFor();
  });

  it("disables the answers of the inbox if the console is read-only", async () => {
    const server = await openConsole({ ...config, console: { readOnly: true } });
    await start(server, "run-1", 1);
    const { page } = await openPage(`${server.url}/console`);
    const button = page.getByRole("button", { name: "Send answer" });
    expect(await button.isDisabled()).toBe(true);
    expect(await page.locator('[title="The console is read-only"]').count()).toBe(1);
  });

  it("shows an inbox that is accessible in each view, with a refused form and an approval", async () => {
    const server = await openConsole(config);
    await start(server, "run-1", 1);
    await server.ask("/agents/payer/text", { json: { input: 'pay {"amount":5}', options: { conversationId: "t" } } });
    const { page, faults } = await openPage(`${server.url}/console`);
    await page.getByRole("button", { name: "Send answer" }).waitFor();
    await page.getByRole("button", { name: "Send answer" }).click();
    await page.locator("[aria-invalid=true]").waitFor();
    await page.getByRole("button", { name: "Approve" }).waitFor();
    await expectAccessible(page, "inbox");
    expect(faults).toEqual([]);
  });
});

const headings = (page: Page): Promise<string[]> => page.getByRole("heading", { level: 2 }).allTextContents();

async function start({ ask }: ConsoleServer, executionId: string, amount: number): Promise<void> {
  const { status, text } = await ask("/workflows/approval/execute", {
    json: { input: { amount }, options: { executionId } },
  });
  expect([status, text]).toEqual([200, expect.stringContaining("suspended")]);
}
async function answer({ ask }: ConsoleServer, executionId: string): Promise<void> {
  const json = { resumeData: { approved: false, note: "elsewhere" } };
  expect((await ask(`/workflows/approval/executions/${executionId}/resume`, { json })).status).toBe(200);
}
const stateOf = async ({ ask }: ConsoleServer, executionId: string): Promise<{ status: string; result: unknown }> =>
  (await ask(`/workflows/approval/executions/${executionId}/state`)).body.data;
const statusOf = async (server: ConsoleServer, executionId: string): Promise<string> =>
  (await stateOf(server, executionId)).status;
const resultOf = async (server: ConsoleServer, executionId: string): Promise<unknown> =>
  (await stateOf(server, executionId)).result;
