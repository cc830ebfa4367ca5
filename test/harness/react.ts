import { useChat, type UseChatHelpers } from "@ai-sdk/react";
import { getToolName, isToolUIPart, type UIMessage } from "ai";
import { Window } from "happy-dom";
import { createElement, useEffect, useLayoutEffect } from "react";
import { onTestFinished } from "vitest";
import { patienceMs } from "./patience.ts";

/** `useChat` on a page. */
export interface Page {
  /** What the hook gave the last time the page was drawn. */
  readonly chat: () => UseChatHelpers<UIMessage>;
  /** The status and the messages, as the page shows them. */
  readonly shown: () => [status: string, ...lines: string[]];
  /** Every status that the page has shown, in order. */
  readonly statuses: readonly string[];
  /** Tries this each time the page is drawn, until it throws no more. */
  until(check: () => void): Promise<void>;
}

/** Draws a page with the hook and nothing else, in a window that goes with the test; `fetch` stays Node's own. */
export async function openPage(options: Parameters<typeof useChat>[0]): Promise<Page> {
  const window = new Window({ url: "http://localhost" });
  const restore = setGlobals({ window, document: window.document });
  const { createRoot } = await import("react-dom/client"); // looks for a window when it is loaded
  const statuses: string[] = [];
  let chat: UseChatHelpers<UIMessage> | undefined;
  let drawn = Promise.withResolvers<false>();
  const gone = Promise.withResolvers<void>();

  function Chat() {
    const now = useChat(options);
    useLayoutEffect(() => {
      chat = now;
      if (statuses.at(-1) !== now.status) statuses.push(now.status);
      drawn.resolve(false);
      drawn = Promise.withResolvers();
    });
    useEffect(() => gone.resolve, []);
    const items = now.messages.map((message) => createElement("li", { key: message.id }, toLine(message)));
    return createElement("ol", { title: now.status }, items);
  }

  const container = window.document.createElement("main");
  const root = createRoot(container as never); // happy-dom's element, in place of the DOM's
  onTestFinished(async () => {
    root.render(null);
    await gone.promise; // `unmount` would leave work behind that looks for the window
    restore();
    await window.happyDOM.close();
  });
  root.render(createElement(Chat));
  await drawn.promise;
  return {
    chat: () => chat!,
    shown: () => [
      container.querySelector("ol")!.title,
      ...[...container.querySelectorAll("li")].map(({ textContent }) => textContent),
    ],
    statuses,
    async until(check) {
      const late = Promise.withResolvers<boolean>();
      const timer = setTimeout(late.resolve, patienceMs, true);
      try {
        for (let isLate = false; ; isLate = await Promise.race([drawn.promise, late.promise])) {
          try {
            return check();
          } catch (error) {
            if (isLate) throw error;
          }
        }
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** A message as people read it: `assistant: [weather {"city":"Rome"} → {"sky":"clear"}] It is clear.` */
export function toLine({ role, parts }: UIMessage): string {
  const texts = parts.map((part) => {
    if (part.type === "text") return part.text;
    if (!isToolUIPart(part)) return "";
    const end = part.state === "output-available" ? JSON.stringify(part.output) : part.state;
    return `[${getToolName(part)} ${JSON.stringify(part.input)} → ${part.errorText ?? end}]`;
  });
  return `${role}: ${texts.filter(Boolean).join(" ")}`;
}

function setGlobals(globals: Record<string, unknown>): () => void {
  const before = Object.keys(globals).map((name) => [name, Object.getOwnPropertyDescriptor(globalThis, name)] as const);
  for (const [name, value] of Object.entries(globals)) {
    Object.defineProperty(globalThis, name, { value, configurable: true, writable: true });
  }
  return () => {
    for (const [name, descriptor] of before) {
      if (descriptor) Object.defineProperty(globalThis, name, descriptor);
      else Reflect.deleteProperty(globalThis, name);
    }
  };
}
