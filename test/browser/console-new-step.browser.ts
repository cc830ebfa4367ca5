import { describe, expect, it } from "vitest";
import { openConsole } from "../console/world.ts";
import { until } from "../harness/waiting.ts";
import { createOrder } from "../workflows/new-step/order.ts";
import { openPage } from "./console-page.ts";

describe("a step of a type that the console has never heard of", () => {
  it("is a row of a run's tree with its steps inside it, and shows its values and the fork of a completed run", async () => {
    const broken = new Set(["charge", "invoice"]);
    const order = createOrder((step) => {
      if (broken.has(step)) throw new Error(`${step} is broken`);
    });
    const server = await openConsole({ workflows: [order] });
    const json = { input: {}, options: { executionId: "run-1" } };
    expect((await server.ask("/workflows/order/execute", { json })).status).toBe(500);
    const { page, faults } = await openPage(`${server.url}/console#/runs/order/run-1?step=pay`);
    const rows = page.getByRole("treeitem");
    const tree = async (): Promise<string[]> => {
      const found: string[] = [];
      for (const row of await rows.all())
        found.push(`${await row.getAttribute("aria-level")} ${await row.locator(".tree-name").textContent()}`);
      return found;
    };
    const detail = page.getByRole("region", { name: "pay" });
    await detail.getByText("andFallback").waitFor();
    expect(await tree()).toEqual([
      "1 reserve andThen",
      "1 ▾pay andFallback",
      "2 ▾card andWorkflow",
      "3 check andThen",
      "3 charge andThen",
      "2 invoice andThen",
    ]);
    const statusOf = (name: RegExp) => page.getByRole("treeitem", { name }).getByText("error", { exact: true });
    for (const name of [/pay/, /card/, /charge/, /invoice/]) await statusOf(name).waitFor();

    broken.delete("invoice");
    await page.getByRole("button", { name: "Retry" }).click();
    await page.getByText("completed", { exact: true }).waitFor();
    await detail.getByRole("group", { name: "Input" }).getByText("goods").waitFor();
    await detail.getByRole("group", { name: "Output" }).getByText('"invoice"').waitFor();
    await until(async () => (await rows.count()) === 7, "the step behind it");
    for (const name of [/card/, /charge/]) await statusOf(name).waitFor();
    await page.getByRole("treeitem", { name: /pay/ }).locator(".tree-mark").click();
    expect(await tree()).toEqual(["1 reserve andThen", "1 ▸pay andFallback", "1 ship andThen"]);

    await detail.getByRole("button", { name: "Fork from here …" }).click();
    const question = page.getByRole("dialog", { name: "Fork from pay?" });
    expect(await question.getByRole("listitem").allTextContents()).toEqual(["pay", "ship"]);
    await question.getByRole("button", { name: "Fork" }).click();
    await page.getByRole("link", { name: "run-1" }).waitFor(); // the run that it was forked from
    await page.getByText("completed", { exact: true }).waitFor();
    expect(faults).toEqual([]);
  });

  it("is on the page of its workflow with its name, its purpose and the steps inside it", async () => {
    const server = await openConsole({ workflows: [createOrder(() => {})] });
    const { page, faults } = await openPage(`${server.url}/console#/workflows/order`);
    const steps = page.getByRole("region", { name: "Steps" });
    await steps.getByText("Takes the money, or sends a bill").waitFor();
    const pay = steps.getByRole("listitem").filter({ hasText: "andFallback" });
    expect(await pay.getByRole("listitem").locator("strong:visible").allTextContents()).toEqual([
      "card",
      "check",
      "charge",
      "invoice",
    ]);
    expect(faults).toEqual([]);
  });
});
