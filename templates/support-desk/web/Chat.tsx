import type { UIMessage } from "ai";
import { useEffect, useRef, useState, type FormEvent } from "react";
import { Message } from "./Message.tsx";
import { useSupportChat } from "./useSupportChat.ts";

const suggestions = [
  "Where is my order 1002?",
  "How can I return something?",
  "I want a refund of 40 € for order 1001",
];

interface Props {
  readonly id: string;
  readonly stored: UIMessage[];
  onTurn(): void;
}

export function Chat({ id, stored, onTurn }: Props) {
  const { messages, problem, isSent, isBusy, waits, send, stop } = useSupportChat(id, stored, onTurn);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => void end.current?.scrollIntoView({ block: "end" }), [messages]);
  return (
    <section className="chat" aria-label="Chat">
      <div className="messages" role="log" aria-label="Messages" aria-busy={isBusy}>
        {messages.length === 0 && (
          <div className="suggestions">
            <p>How can we help?</p>
            {suggestions.map((text) => (
              <button key={text} onClick={() => send(text)}>
                {text}
              </button>
            ))}
          </div>
        )}
        {messages.map((message, index) => (
          <Message key={message.id} message={message} isLast={index === messages.length - 1} />
        ))}
        {isSent && <p className="hint">Support is typing …</p>}
        {problem && <p role="alert">{problem}</p>}
        <div ref={end} />
      </div>
      <Composer isBusy={isBusy} waits={waits} onSend={send} onStop={stop} />
    </section>
  );
}

interface ComposerProps {
  readonly isBusy: boolean;
  readonly waits: boolean;
  onSend(text: string): void;
  onStop(): void;
}

function Composer({ isBusy, waits, onSend, onStop }: ComposerProps) {
  const [text, setText] = useState("");
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (isBusy || text.trim() === "") return;
    onSend(text);
    setText("");
  }
  return (
    <form onSubmit={submit}>
      <input
        aria-label="Message"
        placeholder={waits ? "A new message withdraws the request" : "Write a message"}
        value={text}
        onChange={(event) => setText(event.target.value)}
      />
      {isBusy ? (
        <button type="button" onClick={onStop}>
          Stop
        </button>
      ) : (
        <button className="primary">Send</button>
      )}
    </form>
  );
}
