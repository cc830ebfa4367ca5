import { expect, it } from "vitest";
import { startTestServer } from "../harness/server.ts";
import { until } from "../harness/waiting.ts";
import { config, describeAgents } from "./console-agents-world.ts";
import { openChat } from "./console-chat-tab.ts";
import { expectAccessible, expectNoProblems } from "./console-page.ts";

describeAgents("the agents of the console", (world) => {
  it("lists the agents, and shows the instructions, the tools and the usage of one", async () => {
    const tab = await world.visit();
    await tab.page.getByRole("link", { name: "Helper" }).click();
    await tab.page.getByText("Be brief.").waitFor();
    await tab.page.getByText("Returns the weather").click();
    await tab.page.getByRole("group", { name: "Input schema of weather" }).getByText("city").first().waitFor();
    await tab.begin("helper");
    await tab.say("hello");
    await tab.isReady();
    await tab.page.getByRole("link", { name: "Helper" }).click();
    await tab.page.getByText(/\d+ model calls?, \d+ input tokens, \d+ output tokens/).waitFor();
    expectNoProblems(tab);
  });

  it("lists, renames and deletes conversations", async () => {
    const tab = await world.begin();
    await tab.say("a talk about cheese");
    await tab.isReady();
    await tab.page.getByRole("link", { name: "Helper" }).click();
    const list = tab.page.getByRole("region", { name: "Conversations" });
    await tab.click("Rename a talk about cheese");
    await tab.page.getByLabel("Title").fill("Cheese");
    await tab.page.keyboard.press("Enter");
    await list.getByRole("link", { name: "Cheese", exact: true }).click();
    await tab.page.getByRole("heading", { name: "Cheese", exact: true }).waitFor();
    await tab.click("Delete Cheese");
    const dialog = tab.page.getByRole("dialog");
    await dialog.waitFor();
    await tab.page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await tab.click("Delete Cheese");
    await dialog.getByRole("button", { name: "Delete", exact: true }).click();
    await tab.page.getByRole("heading", { name: "Instructions" }).waitFor();
    await list
      .getByText(/message/)
      .first()
      .waitFor();
    expect(await list.getByRole("link", { name: "Cheese", exact: true }).count()).toBe(0);
    expectNoProblems(tab);
  });

  it("shows long lists and long conversations page by page", async () => {
    const ask = (conversationId: string, input: string): Promise<unknown> =>
      world.server.post("/agents/parrot/text", { input, options: { conversationId } });
    for (let count = 0; count < 55; count++) await ask(`talk-${count}`, `talk ${count}`);
    for (let count = 1; count <= 55; count++) await ask("talk-0", `question ${count}`);
    const tab = await world.visit("/agents/parrot");
    const list = tab.page.getByRole("region", { name: "Conversations" });
    await list.getByRole("link", { name: "talk 54" }).waitFor();
    expect(await list.getByRole("listitem").count()).toBe(50);
    await tab.click("More");
    await list.getByRole("link", { name: "talk 0", exact: true }).click();
    await tab.isReady();
    expect(await tab.words()).toHaveLength(100);
    await tab.click("Show earlier messages");
    await until(async () => (await tab.words()).length === 112, "all messages");
    const words = await tab.words();
    expect(words.slice(0, 4)).toEqual(["talk 0", "talk 0", "question 1", "question 1"]);
    expect(words.at(-1)).toBe("question 55");
    // Those that were shown stay when the conversation is read again.
    await tab.say("one more");
    await until(async () => (await tab.words()).length === 114, "one more message");
    await tab.isReady();
    expect((await tab.words())[0]).toBe("talk 0");
    expectNoProblems(tab);
  });

  it("shows agents, answers, forms, errors and dialogs that are accessible in each view", async () => {
    const tab = await world.visit();
    const { page } = tab;
    await page.getByRole("link", { name: "Helper" }).waitFor();
    await expectAccessible(page, "agents");
    await tab.begin("rich");
    await expectAccessible(page, "chat-empty");
    await tab.say("hello");
    await tab.isReady();
    await expectAccessible(page, "chat-parts");
    await tab.begin("weak");
    world.failModel(1);
    await tab.say("fail");
    await page.getByRole("alert").waitFor();
    await expectAccessible(page, "chat-error");
    await tab.begin("helper");
    await tab.say('pay {"amount":7}');
    await page.getByLabel("Reason").waitFor();
    await expectAccessible(page, "chat-approval");
    await tab.begin("helper");
    await tab.say('refund {"order":"o1"}');
    await page.getByLabel("amount").waitFor();
    await expectAccessible(page, "chat-form");
    await tab.click(/^Delete/);
    await page.getByRole("dialog").waitFor();
    await expectAccessible(page, "chat-dialog");
    await page.keyboard.press("Escape");
    await page.getByRole("link", { name: "Helper" }).click();
    await page.getByText(/input tokens/).waitFor();
    await expectAccessible(page, "agent");
  });

  it("only shows agents where the console is read-only", async () => {
    const other = await startTestServer("start", { config: { ...config, console: { readOnly: true } } });
    await other.post("/agents/helper/text", { input: 'pay {"amount":7}', options: { conversationId: "c1" } });
    const tab = await openChat(`${other.url}/console#/agents/helper/c1`);
    await tab.sees("waits for approval");
    for (const name of ["Send", "Add files", "Approve", "Deny", "Regenerate", "Edit", /^Rename/, /^Delete/]) {
      const button = tab.page.getByRole("button", { name, exact: typeof name === "string" });
      expect(await button.isDisabled(), String(name)).toBe(true);
      expect(await button.getAttribute("title")).toContain("read-only");
    }
    expect(await tab.composer.isDisabled()).toBe(true);
    expectNoProblems(tab);
  });
});
