import type { Locator } from "playwright-core";
import { until } from "../harness/waiting.ts";
import { openPage, type ConsolePage, type PageOptions } from "./console-page.ts";

/** A tab with the view Agents of the console. */
export interface ChatTab extends ConsolePage {
  readonly composer: Locator;
  /** The answers that are shown. */
  readonly answers: Locator;
  /** Opens a new conversation with an agent. */
  begin(agentId: string): Promise<void>;
  /** Sends a message with the keyboard. */
  say(text: string): Promise<void>;
  click(name: string | RegExp): Promise<void>;
  /** Waits until the last answer has this text. */
  sees(text: string): Promise<void>;
  /** Waits until the last answer is complete. */
  isReady(): Promise<void>;
  /** Returns the words of each message, without what is around them. */
  words(): Promise<string[]>;
}

export async function openChat(url: string, options?: PageOptions): Promise<ChatTab> {
  const opened = await openPage(url, options);
  const { page } = opened;
  const answers = page.getByRole("article", { name: "Answer" });
  const composer = page.getByLabel("Message", { exact: true });
  return {
    ...opened,
    composer,
    answers,
    async begin(agentId) {
      await page.goto(`${url.replace(/#.*/, "")}#/agents/${encodeURIComponent(agentId)}`);
      await page.getByRole("button", { name: "New conversation" }).click();
      await composer.waitFor();
    },
    async say(text) {
      await composer.fill(text);
      await until(() => page.getByRole("button", { name: "Send", exact: true }).isEnabled(), "the composer");
      await composer.press("Enter");
      await until(async () => (await composer.inputValue()) === "", "the message to be sent");
    },
    click: (name) => page.getByRole("button", { name, exact: typeof name === "string" }).click(),
    sees: (text) => answers.last().getByText(text).filter({ visible: true }).first().waitFor(),
    isReady: () => page.getByRole("button", { name: "Regenerate" }).waitFor(),
    words: () =>
      page
        .locator("article.message")
        .evaluateAll((all) =>
          all.map((one) => Array.from(one.querySelectorAll(":scope > .words"), (part) => part.textContent).join("\n")),
        ),
  };
}
