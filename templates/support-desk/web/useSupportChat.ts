import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport, isToolUIPart, type UIMessage } from "ai";
import { useEffect, useRef, useState } from "react";
import { agent, readConversation, stopAnswer } from "./api.ts";
import { isWaiting } from "./Message.tsx";
import { toHeaders } from "./session.ts";

/**
 * `useChat` for a conversation that the server stores. `stored` are its messages so far. `onTurn` is called when an answer
 * begins or ends.
 */
export function useSupportChat(id: string, stored: UIMessage[], onTurn: () => void) {
  const lastStored = useRef(stored.at(-1)?.id);
  const [transport] = useState(() => createTransport(id, lastStored));
  const { messages, status, error, sendMessage, setMessages, resumeStream } = useChat({
    id,
    messages: stored,
    resume: true, // attaches to the answer that is being made, after a reload
    transport,
    onFinish: onTurn,
  });
  const isAnswering = status === "submitted" || status === "streaming";
  useEffect(() => {
    if (status === "streaming") onTurn();
  }, [status, onTurn]);

  // A manager decides, and writes, in another browser: the conversation is read again every two seconds.
  const waits = !isAnswering && messages.at(-1)?.parts.some(isWaiting) === true;
  const isQuiet = !isAnswering && !error && messages.length > 0;
  const shown = useRef(messages);
  shown.current = messages;
  useEffect(() => {
    if (!isQuiet) return;
    let isOver = false;
    async function look(): Promise<void> {
      const { messages: all, running } = await readConversation(id);
      if (isOver || (!running && toMark(all) === toMark(shown.current.slice(-all.length)))) return;
      lastStored.current = all.at(-1)?.id;
      setMessages(all);
      if (running) await resumeStream();
    }
    const timer = setInterval(() => void look().catch(() => {}), 2_000); // a failed request is repeated
    return () => {
      isOver = true;
      clearInterval(timer);
    };
  }, [isQuiet, id, setMessages, resumeStream]);

  // `stop()` of `useChat` only ends the reading. The server stops the answer and stores the part that was made. Then its
  // stream ends, and the stored part is shown.
  const [isStopping, setStopping] = useState(false);
  useEffect(() => {
    if (!isStopping || isAnswering) return;
    readConversation(id)
      .then((conversation) => setMessages(conversation.messages))
      .catch(() => {})
      .finally(() => setStopping(false));
  }, [isStopping, isAnswering, id, setMessages]);
  async function stop(): Promise<void> {
    setStopping(true);
    const { stopped } = await stopAnswer(id).catch(() => ({ stopped: false }));
    if (!stopped) setStopping(false);
  }

  const send = (text: string): void => void sendMessage({ text });
  const problem = error && toText(error);
  return { messages, problem, isSent: status === "submitted", isBusy: isAnswering || isStopping, waits, send, stop };
}

/** Returns a text that changes with the messages and the states of their tools. */
const toMark = (messages: readonly UIMessage[]): string =>
  JSON.stringify(messages.map(({ id, parts }) => [id, parts.map((part) => (isToolUIPart(part) ? part.state : ""))]));

const createTransport = (id: string, lastStored: { readonly current: string | undefined }) =>
  new DefaultChatTransport({
    api: `${agent}/chat`,
    headers: toHeaders,
    // The server has all earlier messages: the last one is enough.
    prepareSendMessagesRequest: ({ messages, trigger, messageId }) => ({
      body: { id, messages: messages.slice(-1), trigger, messageId },
    }),
    prepareReconnectToStreamRequest: () => ({
      api: `${agent}/chat/${id}/stream?after=${lastStored.current ?? "none"}`,
    }),
  });

/** The message of an error of `useChat` is the body of the response. */
function toText({ message }: Error): string {
  try {
    return (JSON.parse(message) as { error: string }).error;
  } catch {
    return message;
  }
}
