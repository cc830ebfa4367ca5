import { Button } from "../../../parts/button.tsx";
import { isToolUIPart } from "ai";
import { Component } from "preact";
import { useState } from "preact/hooks";
import { Json } from "../../../parts/json.tsx";
import { Text, toVisible } from "../../../parts/text.tsx";
import { Time, toDuration } from "../../../parts/time.tsx";
import type { AgentDetail } from "../agent-detail.ts";
import type { ChatSession } from "../chat/chat-session.ts";
import type { ChatMessage, ChatPart } from "../chat/chat-state.ts";
import { Composer } from "../chat/composer.tsx";
import { FileView, Source } from "./file-view.tsx";
import { ModelCalls } from "./model-calls.tsx";
import { ToolCall } from "./tool-call.tsx";

export interface MessageProps {
  readonly session: ChatSession;
  readonly message: ChatMessage;
  /** The message before. */
  readonly asked: ChatMessage | undefined;
  readonly isLast: boolean;
  /** True for the last message of the user. */
  readonly isLastOwn: boolean;
  readonly phase: "opening" | "ready" | "busy" | "closed";
  readonly agentId: string;
  readonly conversationId: string;
  readonly agent: AgentDetail | undefined;
}

/** A message. It is rendered again only if it has changed, so that a long conversation costs nothing while words arrive. */
export class Message extends Component<MessageProps> {
  override shouldComponentUpdate(next: MessageProps): boolean {
    return (Object.keys(next) as (keyof MessageProps)[]).some(
      (name) => name !== "asked" && next[name] !== this.props[name],
    );
  }
  override render() {
    return this.props.message.role === "user" ? <OwnMessage {...this.props} /> : <Answer {...this.props} />;
  }
}

function OwnMessage({ session, message, isLastOwn, phase }: MessageProps) {
  const [isEdited, setEdited] = useState(false);
  const { createdAt, author } = message.metadata ?? {};
  const name = author && (author.name ?? author.id);
  const text = message.parts.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n");
  const files = message.parts.filter((part) => part.type === "file");
  if (isEdited) {
    const edit = { messageId: message.id, text, files, onClose: () => setEdited(false) };
    return (
      <article class="message own" aria-label="You">
        <Composer session={session} edit={edit} />
      </article>
    );
  }
  return (
    <article class="message own" aria-label={name ?? (session.isOther.value ? "User" : "You")}>
      {name !== undefined && (
        <p class="hint">
          <Text value={name} />
        </p>
      )}
      <Parts message={message} />
      <footer>
        {createdAt && <Time at={createdAt} />}
        {isLastOwn && phase === "ready" && !session.isOther.value && (
          <Button class="small" acts onClick={() => setEdited(true)}>
            Edit
          </Button>
        )}
      </footer>
    </article>
  );
}

function Answer(props: MessageProps) {
  const { session, message, asked, isLast, phase, agentId, conversationId } = props;
  const isMade = isLast && phase === "busy";
  const { createdAt, usage, stopped } = message.metadata ?? {};
  const reason = stopped ? "stopped" : session.finishReasons.value[message.id];
  const askedAt = asked?.metadata?.createdAt;
  return (
    <article class="message answer" aria-label="Answer" aria-busy={isMade}>
      <Parts message={message} context={props} />
      {!isMade && (
        <footer>
          {createdAt && <Time at={createdAt} />}
          {askedAt && createdAt && <span>{toDuration(Date.parse(createdAt) - Date.parse(askedAt))}</span>}
          {usage && (
            <span>
              {usage.inputTokens ?? "?"} input + {usage.outputTokens ?? "?"} output tokens
            </span>
          )}
          {reason !== undefined && (
            <span class="tag" title="Finish reason">
              <Text value={reason} />
            </span>
          )}
          {isLast && phase === "ready" && !session.isOther.value && (
            <Button class="small" acts onClick={() => void session.regenerate(message.id)}>
              Regenerate
            </Button>
          )}
        </footer>
      )}
      {phase !== "opening" && (
        <ModelCalls agentId={agentId} conversationId={conversationId} messageId={message.id} isMade={isMade} />
      )}
    </article>
  );
}

function Parts({ message, context }: { message: ChatMessage; context?: MessageProps }) {
  return (
    <>
      {message.parts.map((part, index) => (
        <Part key={isToolUIPart(part) ? part.toolCallId : index} {...{ message, part, context }} />
      ))}
    </>
  );
}

function Part({ message, part, context }: { message: ChatMessage; part: ChatPart; context: MessageProps | undefined }) {
  if (isToolUIPart(part)) return context ? <ToolCall message={message} part={part} context={context} /> : null;
  switch (part.type) {
    case "text":
      return part.text === "" ? null : <p class="words">{toVisible(part.text)}</p>;
    case "reasoning":
      return <Reasoning text={part.text} isMade={part.state === "streaming"} />;
    case "file":
    case "reasoning-file":
      return <FileView file={part} />;
    case "source-url":
      return <Source url={part.url} title={part.title} />;
    case "source-document":
      return <Source title={part.title || part.filename || part.mediaType} />;
    case "step-start":
      return null;
    default:
      return <Json label={part.type} value={part} />;
  }
}

function Reasoning({ text, isMade }: { text: string; isMade: boolean }) {
  if (text === "" && !isMade) return null;
  return (
    <details class="reasoning">
      <summary>{isMade ? "Reasoning …" : "Reasoning"}</summary>
      <p class="words">{toVisible(text)}</p>
    </details>
  );
}
