import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
import { expect, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";

/** A tab with the view Agents of the console. */
export interface ConsoleTab {
  readonly page: Page;
  readonly context: BrowserContext;
  /** The errors of the page: exceptions, and what the browser has logged. */
  readonly problems: string[];
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

export interface TabOptions {
  /** Opens the tab in a profile that exists. @default a new one */
  readonly context?: BrowserContext;
  readonly colorScheme?: "light" | "dark";
  readonly width?: number;
}

export async function openConsole(browser: Browser, url: string, options: TabOptions = {}): Promise<ConsoleTab> {
  const { colorScheme = "light", width = 1280 } = options;
  const context = options.context ?? (await browser.newContext({ colorScheme, viewport: { width, height: 800 } }));
  if (!options.context) onTestFinished(() => context.close());
  context.setDefaultTimeout(patienceMs);
  const page = await context.newPage();
  const problems: string[] = [];
  page.on("pageerror", ({ message }) => problems.push(message));
  page.on("console", (message) => void (message.type() === "error" && problems.push(message.text())));
  page.on("dialog", (dialog) => {
    problems.push(`a script has run: ${dialog.message()}`);
    void dialog.dismiss();
  });
  const answers = page.getByRole("article", { name: "Answer" });
  const composer = page.getByLabel("Message", { exact: true });
  await page.goto(url);
  return {
    page,
    context,
    problems,
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

/** Fails if the page has reported an error. */
export const expectNoProblems = ({ problems }: ConsoleTab): void => expect(problems).toEqual([]);
