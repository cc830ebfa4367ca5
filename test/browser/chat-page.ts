import { useChat, type UseChatHelpers } from "@ai-sdk/react";
import * as sdk from "ai";
import type { UIMessage, UIMessageChunk } from "ai";
import { createElement, useLayoutEffect } from "react";
import { createRoot } from "react-dom/client";

/** The page as a test sees it. */
export interface ChatPage {
  /** What the hook gave the last time the page was drawn. */
  chat: UseChatHelpers<UIMessage>;
  /** The chunks that the page was sent since it was loaded. */
  readonly heard: UIMessageChunk[];
  /** The number of responses since it was loaded. The first one is about the answer to resume. */
  readonly responses: number;
}
declare global {
  interface Window {
    page: ChatPage;
  }
}

// As documented under "Resume a stream". The agent, the conversation and the version of the AI SDK are in the address.
const { agent = "", id = "", version = "", history } = Object.fromEntries(new URLSearchParams(location.search));
const messages = history === "server" ? await load() : (JSON.parse(localStorage.getItem(id) ?? "[]") as UIMessage[]);
async function load(): Promise<UIMessage[]> {
  const { data } = await (await fetch(`/agents/${agent}/conversations/${id}`)).json();
  return data?.messages ?? [];
}
const save = (list: readonly UIMessage[]): void => localStorage.setItem(id, JSON.stringify(list));

const transport = new sdk.DefaultChatTransport({
  api: `/agents/${agent}/chat`,
  prepareSendMessagesRequest({ messages: all, trigger, messageId }) {
    save(all.slice(0, all.findLastIndex(({ role }) => role === "user") + 1));
    return { body: { id, messages: all.slice(-1), trigger, messageId } };
  },
  prepareReconnectToStreamRequest: () => ({
    api: `/agents/${agent}/chat/${id}/stream?after=${messages.at(-1)?.id ?? "none"}&sdk=${version}`,
  }),
  fetch: async (url, init) => {
    const response = await fetch(url, init);
    responses++;
    void listen(response.clone());
    return response;
  },
});

let responses = 0;
const heard: UIMessageChunk[] = [];
async function listen(response: Response): Promise<void> {
  const lines = (await response.text()).split("\n");
  for (const line of lines) if (line.startsWith("data: {")) heard.push(JSON.parse(line.slice("data: ".length)));
}

function Chat() {
  const chat = useChat({
    id,
    messages,
    resume: true,
    transport,
    sendAutomaticallyWhen: (now) =>
      sdk.lastAssistantMessageIsCompleteWithToolCalls(now) ||
      (version !== "5" && sdk.lastAssistantMessageIsCompleteWithApprovalResponses(now)), // ai 5 has no approvals
    onFinish({ messages: all, isAbort, isDisconnect, isError }) {
      if (!isAbort && !isDisconnect && !isError) save(all);
    },
  });
  useLayoutEffect(
    () =>
      void (window.page = {
        chat,
        heard,
        get responses() {
          return responses;
        },
      }),
  );
  const items = chat.messages.map(({ id: key, role, parts }) =>
    createElement("li", { key, className: role }, JSON.stringify(parts)),
  );
  return createElement("ol", { title: chat.status }, items);
}

createRoot(document.body.appendChild(document.createElement("main"))).render(createElement(Chat));
