import { useCallback, useEffect, useState, type FormEvent } from "react";
import { addMessage, readConversation, stopAnswer, type Approval, type OpenConversation } from "./api.ts";
import { Message } from "./Message.tsx";

/** The chat behind a refund. A manager reads it, answers in it, and stops the agent. */
export function CustomerChat({ of, onClose }: { of: Approval; onClose(): void }) {
  const { conversationId: id, userId } = of;
  const [chat, setChat] = useState<OpenConversation>();
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const refresh = useCallback(
    () => readConversation(id, userId).then(setChat, (error: Error) => setProblem(error.message)),
    [id, userId],
  );
  useEffect(() => {
    void refresh();
    const timer = setInterval(refresh, 2_000);
    return () => clearInterval(timer);
  }, [refresh]);
  async function act(action: () => Promise<unknown>): Promise<void> {
    setProblem("");
    await action().catch((error: Error) => setProblem(error.message));
    await refresh();
  }
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (text.trim() === "") return;
    // The agent does not answer it. It reads it together with the next message of the customer.
    void act(() => addMessage(id, userId, text).then(() => setText("")));
  }
  return (
    <section className="chat" aria-label={`Chat of ${userId}`}>
      <div className="messages" role="log" aria-label="Messages">
        {chat?.messages.map((message, index, all) => (
          <Message key={message.id} message={message} isLast={index === all.length - 1} user={userId} />
        ))}
        <p role="alert">{problem}</p>
      </div>
      <form onSubmit={submit}>
        <input
          aria-label="Message"
          placeholder={`Write to ${userId}`}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <button className="primary">Send</button>
        {chat?.running && (
          <button type="button" onClick={() => act(() => stopAnswer(id, userId))}>
            Stop the agent
          </button>
        )}
        <button type="button" onClick={onClose}>
          Close
        </button>
      </form>
    </section>
  );
}
