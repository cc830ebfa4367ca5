import { useState } from "preact/hooks";
import { conversationUser } from "../../acting-user.ts";
import { ask, path, toQuery } from "../../server/api.ts";
import { Question } from "../../parts/dialog.tsx";
import { act } from "../../parts/notices.tsx";
import { Text } from "../../parts/text.tsx";
import { canAct, whyNot } from "../../session.ts";
import { conversationChanges } from "./conversation.ts";

export interface ConversationActionsProps {
  readonly agentId: string;
  readonly id: string;
  readonly title: string;
  onRenamed?(): void;
  onDeleted?(): void;
}

/** The buttons that rename and delete a conversation. */
export function ConversationActions({ agentId, id, title, onRenamed, onDeleted }: ConversationActionsProps) {
  const [asked, setAsked] = useState<"rename" | "delete" | undefined>();
  const [text, setText] = useState(title);
  const url = path`/agents/${agentId}/conversations/${id}` + toQuery({ userId: conversationUser() });
  const close = (): void => setAsked(undefined);
  const common = { type: "button", class: "small", disabled: !canAct(), title: whyNot() } as const;
  return (
    <div class="actions">
      <button
        {...common}
        aria-label={`Rename ${title}`}
        onClick={() => {
          setText(title);
          setAsked("rename");
        }}
      >
        Rename
      </button>
      <button {...common} aria-label={`Delete ${title}`} onClick={() => setAsked("delete")}>
        Delete
      </button>
      {asked === "rename" && (
        <Question
          title="Rename the conversation"
          submit="Rename"
          onClose={close}
          onSubmit={() => void change("Renamed", () => ask(url, { method: "PATCH", body: { title: text } }), onRenamed)}
        >
          <div class="field">
            <label for="conversation-title">Title</label>
            <input
              id="conversation-title"
              type="text"
              required
              maxLength={200}
              value={text}
              onInput={({ currentTarget }) => setText(currentTarget.value)}
            />
          </div>
        </Question>
      )}
      {asked === "delete" && (
        <Question
          title="Delete the conversation?"
          submit="Delete"
          onClose={close}
          onSubmit={() => void change("Deleted", () => ask(url, { method: "DELETE" }), onDeleted)}
        >
          <p>
            <Text value={title} />
          </p>
          <p>Its messages and files are removed, and a turn that runs is stopped. This cannot be undone.</p>
        </Question>
      )}
    </div>
  );
}

async function change(done: string, action: () => Promise<unknown>, then?: () => void): Promise<void> {
  if (!(await act(done, action))) return;
  conversationChanges.value++;
  then?.();
}
