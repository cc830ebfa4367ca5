import type { UIMessage } from "ai";
import { useCallback, useEffect, useState } from "react";
import { ApiError, deleteConversation, listConversations, readConversation, type ConversationItem } from "./api.ts";
import { Chat } from "./Chat.tsx";
import { ConversationList } from "./ConversationList.tsx";

/** The conversations of a customer. The open one is in the address, so that a reload shows it again. */
export function Desk() {
  const [open, setOpen] = useState(readAddress);
  const [items, setItems] = useState<ConversationItem[]>([]);
  const refresh = useCallback(() => listConversations().then(setItems, () => {}), []); // the next turn tries again
  useEffect(() => void refresh(), [refresh]);
  useEffect(() => history.replaceState(null, "", open.isNew ? location.pathname : `#${open.id}`), [open]);

  const onTurn = useCallback(() => {
    setOpen(({ id }) => ({ id, isNew: false }));
    void refresh();
  }, [refresh]);
  async function remove(id: string): Promise<void> {
    await deleteConversation(id);
    if (id === open.id) setOpen(createNew());
    await refresh();
  }
  return (
    <main className="desk">
      <ConversationList
        items={items}
        openId={open.id}
        onOpen={(id) => setOpen({ id, isNew: false })}
        onNew={() => setOpen(createNew())}
        onDelete={remove}
      />
      <Conversation key={open.id} id={open.id} isNew={open.isNew} onTurn={onTurn} />
    </main>
  );
}

interface OpenConversation {
  readonly id: string;
  /** True until the first message is sent: the server does not know the conversation. */
  readonly isNew: boolean;
}
const createNew = (): OpenConversation => ({ id: crypto.randomUUID(), isNew: true });
const readAddress = (): OpenConversation =>
  location.hash ? { id: location.hash.slice(1), isNew: false } : createNew();

/** Reads the stored messages, then shows the chat. */
function Conversation({ id, isNew, onTurn }: OpenConversation & { onTurn(): void }) {
  const [messages, setMessages] = useState<UIMessage[] | undefined>(isNew ? [] : undefined);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    if (messages) return;
    readConversation(id).then(
      (conversation) => setMessages(conversation.messages),
      (error: Error) => {
        if (error instanceof ApiError && error.status === 404) setMessages([]); // it was deleted
        else setProblem(error.message);
      },
    );
  }, [id, messages]);
  if (messages) return <Chat id={id} stored={messages} onTurn={onTurn} />;
  return <p role="status">{problem || "Loading …"}</p>;
}
