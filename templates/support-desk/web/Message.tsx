import { getToolName, isToolUIPart, type UIMessage } from "ai";

type Part = UIMessage["parts"][number];

/** Returns true for a call of a tool that waits for a manager. */
export const isWaiting = (part: Part): boolean => isToolUIPart(part) && part.state === "approval-requested";

interface Props {
  readonly message: UIMessage;
  readonly isLast: boolean;
  /** The name of the customer. */
  readonly user?: string;
}

export function Message({ message, isLast, user = "You" }: Props) {
  const { role, parts, metadata } = message;
  const { stopped, author } = (metadata ?? {}) as { stopped?: boolean; author?: { id: string; name?: string } };
  // A manager has written it into the chat: the server has set the author.
  const person = author && (author.name ?? author.id);
  return (
    <article className={person ? "person" : role} aria-label={person ?? (role === "user" ? user : "Support")}>
      {person && <p className="hint">{person}</p>}
      {parts.map((part, index) => {
        if (part.type === "text") return <p key={index}>{part.text}</p>;
        return isToolUIPart(part) ? <ToolCall key={index} part={part} isLast={isLast} /> : null;
      })}
      {stopped && <p className="hint">Stopped</p>}
    </article>
  );
}

const titles: Record<string, string> = {
  lookUpOrder: "Look up an order",
  searchHelpPages: "Search the help pages",
  refund: "Refund",
};
/** Returns the name of a tool, as people read it. */
export const toTitle = (toolName: string): string => titles[toolName] ?? toolName;

type ToolPart = Extract<Part, { toolCallId: string }>;

function ToolCall({ part, isLast }: { part: ToolPart; isLast: boolean }) {
  return (
    <details className={`tool ${part.state}`}>
      <summary>
        {toTitle(getToolName(part))}: <em>{toStatus(part, isLast)}</em>
      </summary>
      <pre>{JSON.stringify(part.input, null, 2)}</pre>
      {part.state === "output-available" && <pre>{JSON.stringify(part.output, null, 2)}</pre>}
      {part.state === "output-error" && <pre>{part.errorText}</pre>}
    </details>
  );
}

function toStatus({ state, approval }: ToolPart, isLast: boolean): string {
  switch (state) {
    case "approval-requested":
      return isLast ? "waits for a manager" : "withdrawn";
    case "output-available":
      return approval ? "approved by a manager, done" : "done";
    case "output-error":
      return "failed";
    case "output-denied":
      if (approval.reason === "superseded") return "withdrawn"; // by a new message
      return approval.reason ? `declined: ${approval.reason}` : "declined";
    default:
      return "running";
  }
}
