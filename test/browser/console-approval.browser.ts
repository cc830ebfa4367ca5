import { defineWorkflow } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { openConsole } from "../console/world.ts";
import { expectAccessible, openPage, tabTo } from "./console-page.ts";

const approval = defineWorkflow({
  id: "approval",
  name: "Expense approval",
  input: v.object({ amount: v.number(), reason: v.string() }),
  resumeSchema: v.object({ approved: v.boolean(), limit: v.pipe(v.number(), v.maxValue(1_000, "at most 1000")) }),
}).andThen({
  id: "decide",
  execute: async ({ data, resumeData, suspend }) => resumeData ?? suspend(`Approve ${data.amount} for ${data.reason}?`),
});

describe("an approval, from its start to its end, in the console", () => {
  it("starts a run, answers it in the inbox and shows its end, by mouse", async () => {
    const { url, ask } = await openConsole({ workflows: [approval] });
    const { page, faults } = await openPage(`${url}/console`);
    await page.getByText("Nothing waits for a person").waitFor();
    await page.getByRole("link", { name: "Workflows" }).click();
    await page.getByRole("link", { name: "Expense approval" }).click();
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("alert").getByText("This field is required").waitFor();
    await page.keyboard.type("much"); // the field has the focus
    await page.getByLabel("reason").fill("a trip");
    await page.getByRole("button", { name: "Run", exact: true }).press("Space");
    await page.getByText("Expected number but received").waitFor();
    expect(await page.getByLabel("amount").getAttribute("aria-invalid")).toBe("true");
    await page.getByLabel("amount").fill("900");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("waits for a person").first().waitFor();
    await page.getByRole("link", { name: "Inbox 1" }).click();
    const entry = page.getByRole("article", { name: "Approve 900 for a trip?" });
    await entry.getByLabel("approved").click();
    await entry.getByLabel("limit").fill("5000");
    await entry.getByRole("button", { name: "Send answer" }).click();
    await entry.getByText("at most 1000").waitFor();
    await expectAccessible(page, "inbox-refused");
    await entry.getByLabel("limit").fill("950");
    await entry.getByRole("button", { name: "Send answer" }).click();
    await page.getByRole("link", { name: "Show the run" }).click();
    await page.locator(".status[data-status=completed]").first().waitFor();
    const { body } = await ask("/executions?include=values");
    expect(body.data.items[0].result).toEqual({ approved: true, limit: 950 });
    expect(faults).toEqual([]);
  });

  it("keeps the focus on the Run button when the server refuses the whole form", async () => {
    const text = defineWorkflow({ id: "text", input: v.string() }).andThen({ id: "only", execute: () => 1 });
    const { url } = await openConsole({ workflows: [text] });
    const { page, faults } = await openPage(`${url}/console#/workflows/text`);
    await page.getByRole("button", { name: "Run", exact: true }).press("Space");
    await page.getByRole("alert").waitFor();
    expect(await page.evaluate(() => document.activeElement?.textContent)).toBe("Run");
    expect(faults).toEqual([]);
  });

  it("starts a run, answers it in the inbox and shows its end, by keyboard alone", async () => {
    const { url, ask } = await openConsole({ workflows: [approval] });
    const { page, faults } = await openPage(`${url}/console`);
    await page.getByText("Nothing waits for a person").waitFor();
    await tabTo(page, /^Workflows/);
    await page.keyboard.press("Enter");
    await page.getByRole("link", { name: "Expense approval" }).waitFor();
    await tabTo(page, /^Expense approval/);
    await page.keyboard.press("Enter");
    await page.getByLabel("amount").waitFor();
    await tabTo(page, /^amount/);
    await page.keyboard.type("900");
    await tabTo(page, /^reason/);
    await page.keyboard.type("a trip");
    await page.keyboard.press("Enter");
    await page.getByText("waits for a person").first().waitFor();
    await tabTo(page, /^Inbox/);
    await page.keyboard.press("Enter");
    await page.getByRole("article", { name: "Approve 900 for a trip?" }).getByLabel("approved").waitFor();
    await tabTo(page, /^approved/);
    await page.keyboard.press("Space");
    await tabTo(page, /^limit/);
    await page.keyboard.type("5000");
    await page.keyboard.press("Enter");
    await page.getByText("at most 1000").waitFor();
    await page.keyboard.press("Backspace");
    await page.keyboard.press("Enter");
    await page.getByText("Nothing waits for a person").waitFor();
    await tabTo(page, /Show the run/);
    await page.keyboard.press("Enter");
    await page.locator(".status[data-status=completed]").first().waitFor();
    const { body } = await ask("/executions?include=values");
    expect(body.data.items[0].result).toEqual({ approved: true, limit: 500 });
    expect(faults).toEqual([]);
  });
});
