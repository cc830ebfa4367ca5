import { defineWorkflow, type Config } from "agentserve";
import type { Page } from "playwright-core";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openConsole, type ConsoleServer } from "../console/world.ts";
import { until } from "../harness/waiting.ts";
import { expectAccessible, openPage } from "./console-page.ts";

const quick = defineWorkflow({ id: "quick" }).andThen({ id: "only", execute: () => "done" });
const asks = defineWorkflow({ id: "asks" }).andThen({
  id: "ask",
  execute: async ({ resumeData, suspend }) => resumeData ?? suspend("May it continue?"),
});
const sleeps = defineWorkflow({ id: "sleeps" }).andThen({
  id: "sleep",
  execute: async ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
});
const broken = new Set<unknown>();
const fails = defineWorkflow({ id: "fails", input: v.object({ key: v.string() }) }).andThen({
  id: "fail",
  execute({ data }) {
    if (broken.has(data.key)) throw new Error("It is broken");
    return "repaired";
  },
});
const config: Config = { workflows: [quick, asks, fails, sleeps] };

describe("the runs of the console", () => {
  it("lists runs newest first, 50 on a page, with the filter and the page in the address", async () => {
    const server = await openConsole(config);
    for (let n = 10; n < 65; n++) await start(server, "quick", `quick-${n}`);
    await start(server, "asks", "asks-1");
    const { page, faults } = await openPage(`${server.url}/console#/runs`);
    await waitForRows(page, 50);
    expect((await ids(page)).slice(0, 2)).toEqual(["asks-1", "quick-64"]);
    await page.getByRole("button", { name: "Older" }).click();
    await waitForRows(page, 6);
    expect(await ids(page)).toEqual(["quick-15", "quick-14", "quick-13", "quick-12", "quick-11", "quick-10"]);
    const other = await openPage(page.url());
    await waitForRows(other.page, 6);
    await page.getByRole("button", { name: "Newer" }).click();
    await waitForRows(page, 50);
    await page.getByLabel("Status").selectOption("suspended");
    await waitForRows(page, 1);
    await page.getByLabel("Waits for").selectOption("timer");
    await page.getByText("No runs match the filter").waitFor();
    await page.getByLabel("Waits for").selectOption("person");
    await waitForRows(page, 1);
    expect(page.url()).toMatch(/#\/runs\?status=suspended&kind=person$/);
    await page.getByRole("button", { name: "Clear" }).click();
    await page.getByLabel("Id begins with").fill("quick-2");
    await waitForRows(page, 10);
    await page.getByLabel("Workflow").selectOption("asks");
    await page.getByText("No runs match the filter").waitFor();
    const shared = await openPage(page.url());
    await shared.page.getByText("No runs match the filter").waitFor();
    expect(await shared.page.getByLabel("Workflow").inputValue()).toBe("asks");
    expect(faults).toEqual([]);
  });

  it("updates runs in place, adds new ones to the first page, and announces them on others", async () => {
    const server = await openConsole(config);
    for (let n = 10; n < 61; n++) await start(server, "quick", `quick-${n}`);
    await start(server, "asks", "asks-1");
    const { page, faults } = await openPage(`${server.url}/console#/runs`);
    const row = page.getByRole("row", { name: /asks-1/ });
    await row.getByText("waits for a person").waitFor();
    await server.ask("/workflows/asks/executions/asks-1/resume", { json: { resumeData: 1 } });
    await row.getByText("completed").waitFor();
    await start(server, "quick", "quick-90");
    await page.getByRole("link", { name: "quick-90" }).waitFor();
    expect((await ids(page)).slice(0, 2)).toEqual(["quick-90", "asks-1"]);
    await page.getByRole("checkbox", { name: "Select asks-1" }).click();
    await start(server, "quick", "quick-91");
    await page.getByRole("link", { name: "1 new run" }).waitFor();
    expect((await ids(page))[0]).toBe("quick-90"); // rows stay while some are selected
    await page.getByRole("link", { name: "1 new run" }).click();
    await page.getByRole("link", { name: "quick-91" }).waitFor();
    await page.getByRole("button", { name: "Older" }).click();
    await waitForRows(page, 4);
    await start(server, "quick", "quick-92");
    await start(server, "quick", "quick-93");
    await page.getByRole("link", { name: "2 new runs" }).click();
    await page.getByRole("link", { name: "quick-93" }).waitFor();
    expect(faults).toEqual([]);
  });

  it("cancels and retries runs together, and counts the results", async () => {
    const server = await openConsole(config);
    for (const n of [1, 2, 3]) await start(server, "asks", `asks-${n}`);
    for (const n of [1, 2]) {
      broken.add(`key-${n}`);
      await start(server, "fails", `fails-${n}`, { key: `key-${n}` });
      broken.delete(`key-${n}`);
    }
    await start(server, "quick", "quick-1");
    const { page, faults } = await openPage(`${server.url}/console#/runs`);
    await waitForRows(page, 6);
    // One of them ends between the click and its request.
    await page.route("**/executions/asks-2/cancel", async (route) => {
      await server.ask("/workflows/asks/executions/asks-2/cancel", { json: { reason: "elsewhere" } });
      await route.continue();
    });
    await page.getByRole("checkbox", { name: "Select all shown runs" }).click();
    expect(await page.getByRole("button", { name: "Retry 2 failed" }).isEnabled()).toBe(true);
    await page.getByRole("button", { name: "Cancel 3 …" }).click();
    await page.getByLabel("Reason").fill("no longer needed");
    await page.getByRole("button", { name: "Cancel 3 runs" }).click();
    await page.getByText(/2 of 3 runs cancelled: Execution asks-2 has already ended/).waitFor();
    await page.getByRole("row", { name: /asks-3 .*cancelled no longer needed/ }).waitFor();
    for (const id of ["fails-1", "fails-2"]) await page.getByRole("checkbox", { name: `Select ${id}` }).click();
    await page.getByRole("button", { name: "Retry 2 failed" }).click();
    await page.getByText("2 runs retried").waitFor();
    await page.getByRole("row", { name: /fails-2 .*completed/ }).waitFor();
    const { body } = await server.ask("/workflows/fails/executions/fails-1/state");
    expect(body.data).toMatchObject({ status: "completed", result: "repaired" });
    expect(faults).toEqual([]);
  });

  it("moves through, selects and opens runs by keyboard", async () => {
    const server = await openConsole(config);
    for (const n of [1, 2, 3]) await start(server, "quick", `quick-${n}`);
    const { page, faults } = await openPage(`${server.url}/console#/runs`);
    await waitForRows(page, 3);
    const focused = (): Promise<string | undefined> =>
      page.evaluate(() => (document.activeElement as HTMLElement | null)?.dataset["run"]);
    await page.keyboard.press("j");
    expect(await focused()).toBe("quick-3");
    await page.keyboard.press("j");
    await page.keyboard.press("ArrowDown");
    expect(await focused()).toBe("quick-1");
    await page.keyboard.press("k");
    await page.keyboard.press("x");
    expect(await page.getByRole("checkbox", { name: "Select quick-2" }).isChecked()).toBe(true);
    await page.keyboard.press("?");
    await page.getByRole("dialog", { name: "Keys" }).waitFor();
    await page.keyboard.press("Escape");
    await page.getByRole("dialog").waitFor({ state: "detached" });
    expect(await focused()).toBe("quick-2");
    await page.keyboard.press("/");
    await page.keyboard.type("quick-1");
    await waitForRows(page, 1);
    expect(await page.getByLabel("Id begins with").inputValue()).toBe("quick-1");
    await page.getByRole("button", { name: "Clear" }).click();
    await waitForRows(page, 3);
    await page.keyboard.press("j");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "quick-3" }).waitFor();
    expect(faults).toEqual([]);
  });

  it("shows runs of every status that are accessible in each view", async () => {
    const server = await openConsole(config);
    await start(server, "quick", "quick-1");
    await start(server, "asks", "asks-1");
    await start(server, "asks", "asks-2");
    await server.ask("/workflows/asks/executions/asks-2/cancel", { json: { reason: "no" } });
    broken.add("key");
    await start(server, "fails", "fails-1", { key: "key" });
    await start(server, "sleeps", "sleeps-1");
    const { page, faults } = await openPage(`${server.url}/console#/runs`);
    await waitForRows(page, 5);
    await page.getByRole("checkbox", { name: "Select asks-1" }).click();
    await expectAccessible(page, "runs");
    await page.getByRole("button", { name: "Cancel 1 …" }).click();
    await expectAccessible(page, "runs-cancel");
    expect(faults).toEqual([]);
  });
});

const ids = (page: Page): Promise<string[]> => page.locator("a[data-run]").allTextContents();
const waitForRows = (page: Page, count: number): Promise<void> =>
  until(async () => (await page.locator("a[data-run]").count()) === count, `${count} rows`);

async function start({ ask }: ConsoleServer, id: string, executionId: string, input: unknown = {}): Promise<void> {
  const headers: Record<string, string> = id === "sleeps" ? { prefer: "respond-async" } : {};
  const json = { input, options: { executionId } };
  const { status, text } = await ask(`/workflows/${id}/execute`, { json, headers });
  expect([status < 300 || id === "fails", text]).toEqual([true, expect.stringContaining(executionId)]);
}
