// Each of these changes of the template makes the test fail: `resume: false`; a stop of the reading only; no look at the
// conversation while a manager decides.
import { join, resolve } from "node:path";
import type { Page } from "playwright-core";
import { describe, expect, it } from "vitest";
import { agentserve, run } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { until } from "../harness/waiting.ts";
import { inEachView } from "./console-page.ts";
import { openProfile } from "./profile.ts";

/** Answered word by word, for longer than the test takes: the demo model repeats what it does not understand. */
const long = Array.from({ length: 3_000 }, (_, index) => `w${index}`).join(" ");

describe("the template support-desk, built and started", () => {
  it("serves a customer and a manager by the template support-desk: refunds, reloads, stops, history", async () => {
    const folder = createProject({});
    expect((await agentserve(["init", "--template", "support-desk"], { cwd: folder }).ended).code).toBe(0);
    const built = await run(process.execPath, [resolve("node_modules/vite/bin/vite.js"), "build"], { cwd: folder })
      .ended;
    expect(built.code, built.stderr).toBe(0);
    // Only `dev` has the sign-in of the demo users.
    const server = agentserve(["dev", "--port", "0", "--data", join(folder, "data.db")], { cwd: folder });
    const [url] = await server.waitFor(/http:\/\/[\w.]+:\d+/);
    const problems: string[] = [];
    const visit = async (user: string): Promise<Visitor> => {
      const context = await openProfile({ viewport: { width: 1280, height: 800 } });
      const page = await context.newPage();
      page.on("pageerror", ({ message }) => problems.push(message));
      page.on("console", (message) => void (message.type() === "error" && problems.push(message.text())));
      await page.goto(`${url}/desk`);
      await page.getByRole("button", { name: user }).click();
      return createVisitor(page, problems);
    };

    const ada = await visit("Ada, a customer");
    await ada.ask("Where is my order 1002?");
    await ada.sees("Look up an order: done", "item notebook, price 12, status on its way.");
    await ada.ask("How can I return something?");
    await ada.sees("Search the help pages: done", "drop the parcel.");

    // The page is reloaded in the middle of an answer, which continues.
    await ada.click("New conversation");
    await ada.ask(long);
    await ada.sees("w5 ");
    await ada.page.reload();
    await ada.sees("w0 w1 w2 w3 w4 w5 ");
    const seen = (await ada.lastAnswer()).length;
    await until(async () => (await ada.lastAnswer()).length > seen, "more words after the reload");
    await ada.click("Stop");
    await ada.sees("Stopped");
    const stopped = await ada.lastAnswer();
    expect(stopped).not.toContain("w2999");
    await ada.page.reload();
    await ada.sees("Stopped");
    expect(await ada.lastAnswer()).toBe(stopped);

    await ada.click("New conversation");
    await ada.ask("I want a refund of 40 € for order 1001");
    await ada.sees("Refund: waits for a manager");
    await ada.page.reload();
    await ada.sees("Refund: waits for a manager");

    const grace = await visit("Grace, a manager");
    await grace.page.getByRole("article", { name: "Refund for ada" }).getByText("40", { exact: true }).waitFor();
    for (const [name, { page }] of Object.entries({ ada, grace })) await inEachView(page, `support-desk-${name}`);
    // The manager answers in the chat behind the refund, which still waits.
    await grace.click("Open the chat");
    const chat = grace.page.getByRole("region", { name: "Chat of ada" });
    await chat.getByRole("article", { name: "ada" }).getByText("I want a refund of 40 €").waitFor();
    await grace.ask("Was it broken?");
    await chat.getByRole("article", { name: "Grace" }).getByText("Was it broken?").waitFor();
    await ada.page.getByRole("article", { name: "Grace" }).getByText("Was it broken?").waitFor();
    await ada.sees("Refund: waits for a manager");
    await inEachView(grace.page, "support-desk-chat-of-ada");
    await grace.click("Close");
    await grace.click("Approve");
    await grace.page.getByText("Nothing waits for a decision.").waitFor();
    await ada.sees("Refund: approved by a manager, done", "item desk lamp, refunded 40.");

    await ada.ask("I want a refund of 30 € for order 1001");
    await ada.sees("Refund: waits for a manager");
    await grace.page.getByLabel("Reason").fill("used");
    await grace.click("Decline");
    await ada.sees("Refund: declined: used", "A manager has declined it: used.");
    await ada.page.reload();
    await ada.sees("Refund: declined: used", "A manager has declined it: used.");
    await ada.page.getByText("Refund: approved by a manager, done").waitFor();

    // A new message withdraws the request.
    await ada.ask("I want a refund of 25 € for order 1001");
    await ada.sees("Refund: waits for a manager");
    await grace.page.getByRole("article", { name: "Refund for ada" }).waitFor();
    await ada.ask("How can I return something?");
    await ada.sees("drop the parcel.");
    await grace.page.getByText("Nothing waits for a decision.").waitFor();
    await ada.page.getByText("Refund: withdrawn").waitFor();
    await ada.page.reload();
    await ada.page.getByText("Refund: withdrawn").waitFor();

    // Earlier conversations are in the list, and one of them is deleted.
    await ada.click("Where is my order 1002?");
    await ada.sees("drop the parcel.");
    await ada.click("Delete Where is my order 1002?");
    await ada.page.getByText("How can we help?").waitFor();
    const listed = ada.page.getByRole("navigation").getByRole("listitem");
    await until(async () => (await listed.count()) === 2, "two conversations");

    expect(problems).toEqual([]);
    server.process.kill("SIGTERM");
    expect(await server.ended).toMatchObject({ code: 0, stderr: expect.not.stringMatching(/error|warning/) });
  });
});

interface Visitor {
  readonly page: Page;
  ask(text: string): Promise<void>;
  click(name: string): Promise<void>;
  /** Waits until the last answer has these texts. */
  sees(...texts: string[]): Promise<void>;
  lastAnswer(): Promise<string>;
}

function createVisitor(page: Page, problems: readonly string[]): Visitor {
  const lastAnswer = async (): Promise<string> =>
    (await page.getByRole("article", { name: "Support" }).allInnerTexts()).at(-1)?.replace(/\s+/g, " ") ?? "";
  return {
    page,
    async ask(text) {
      await page.getByLabel("Message", { exact: true }).fill(text);
      await page.getByRole("button", { name: "Send" }).click();
    },
    click: (name) => page.getByRole("button", { name, exact: true }).click(),
    async sees(...texts) {
      let now = "";
      const isSeen = async (): Promise<boolean> => {
        expect(problems).toEqual([]);
        now = await lastAnswer();
        return texts.every((text) => now.includes(text));
      };
      await until(isSeen, () => `${texts.join(" and ")} in: ${now.slice(0, 500)}`);
    },
    lastAnswer,
  };
}
