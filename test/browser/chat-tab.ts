import type { FileUIPart, UIMessage, UIMessageChunk } from "ai";
import type { Page } from "playwright-core";
import { until } from "../harness/waiting.ts";

/** A tab with `chat-page.ts`. */
export interface ChatTab {
  send(text: string, files?: FileUIPart[]): Promise<void>;
  answerTool(name: string, output: string): Promise<void>;
  /** Answers the approval that the tool `pay` waits for. */
  decide(approved: boolean): Promise<void>;
  reload(): Promise<void>;
  /** Waits until the page knows if there is an answer to resume. */
  isLoaded(): Promise<void>;
  /** Waits until the page has this status, and this text in the answer. */
  shows(status: string, text: string): Promise<void>;
  messages(): Promise<UIMessage[]>;
  /** Returns the chunks of an answer that has ended. */
  heard(): Promise<UIMessageChunk[]>;
}

export function createChatTab(page: Page): ChatTab {
  /** Reads what the page shows now. */
  const look = () =>
    page.evaluate(() => ({
      status: document.querySelector("ol")?.title,
      last: document.querySelector("li.assistant:last-child")?.textContent ?? "",
      error: window.page?.chat.error?.message,
    }));
  const isLoaded = () => until(() => page.evaluate(() => window.page?.responses > 0), "the page to look for an answer");
  return {
    async send(text, files = []) {
      await until(async () => (await look()).status === "ready", "the page");
      // As JSON: the type of a file is too deep for playwright.
      const message = JSON.stringify({ text, files });
      await page.evaluate((json) => void window.page.chat.sendMessage(JSON.parse(json)), message);
    },
    answerTool: (name, output) =>
      page.evaluate(
        ([toolName, result]) => {
          const { messages, addToolOutput } = window.page.chat;
          const part = messages.at(-1)!.parts.find(({ type }) => type === `tool-${toolName}`) as { toolCallId: string };
          void addToolOutput({ tool: toolName, toolCallId: part.toolCallId, output: result });
        },
        [name, output] as const,
      ),
    decide: (approved) =>
      page.evaluate((isApproved) => {
        const { messages, addToolApprovalResponse } = window.page.chat;
        const part = messages.at(-1)!.parts.find(({ type }) => type === "tool-pay") as { approval: { id: string } };
        void addToolApprovalResponse({ id: part.approval.id, approved: isApproved });
      }, approved),
    async reload() {
      await page.reload();
      await isLoaded();
    },
    isLoaded,
    async shows(status, text) {
      let now: Awaited<ReturnType<typeof look>> | undefined;
      const isShown = async (): Promise<boolean> => {
        now = await look();
        return now.status === status && new RegExp(`${text}\\b`).test(now.last);
      };
      await until(isShown, () => `${status} with ${text}: ${JSON.stringify(now)}`);
    },
    messages: () => page.evaluate(() => window.page.chat.messages),
    async heard() {
      await until(() => page.evaluate(() => window.page.heard.at(-1)?.type === "finish"), "the last chunk");
      return page.evaluate(() => window.page.heard);
    },
  };
}

/** The messages without the ids, which are random. */
export const toComparable = (messages: readonly UIMessage[]): UIMessage[] =>
  JSON.parse(JSON.stringify(messages, (key, value) => (key === "id" || key === "toolCallId" ? "-" : value)));
