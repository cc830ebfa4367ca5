import { useState } from "preact/hooks";
import { conversationUser } from "../../acting-user.ts";
import { ask, path, toQuery } from "../../server/api.ts";
import { Question } from "../../parts/dialog.tsx";
import { Button } from "../../parts/button.tsx";
import { TextField } from "../../parts/field.tsx";
import { act } from "../../parts/notices.tsx";
import { Paragraph } from "../../parts/text.tsx";
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
  return (
    <div class="actions">
      <Button
        class="small"
        acts
        aria-label={`Rename ${title}`}
        onClick={() => {
          setText(title);
          setAsked("rename");
        }}
      >
        Rename
      </Button>
      <Button class="small" acts aria-label={`Delete ${title}`} onClick={() => setAsked("delete")}>
        Delete
      </Button>
      {asked === "rename" && (
        <Question
          title="Rename the conversation"
          submit="Rename"
          onClose={close}
          onSubmit={() => void change("Renamed", () => ask(url, { method: "PATCH", body: { title: text } }), onRenamed)}
        >
          <TextField label="Title" required maxLength={200} value={text} onText={setText} />
        </Question>
      )}
      {asked === "delete" && (
        <Question
          title="Delete the conversation?"
          submit="Delete"
          onClose={close}
          onSubmit={() => void change("Deleted", () => ask(url, { method: "DELETE" }), onDeleted)}
        >
          <Paragraph text={title} />
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
