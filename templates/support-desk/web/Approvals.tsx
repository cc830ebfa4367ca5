import { useCallback, useEffect, useState } from "react";
import { decide, listApprovals, type Approval } from "./api.ts";
import { CustomerChat } from "./CustomerChat.tsx";
import { toTitle } from "./Message.tsx";

/** The calls of tools that wait for a manager, of all customers. */
export function Approvals() {
  const [items, setItems] = useState<Approval[]>();
  const [problem, setProblem] = useState("");
  const [open, setOpen] = useState<Approval>(); // stays open when the refund is decided
  const refresh = useCallback(async () => {
    try {
      setItems(await listApprovals());
      setProblem("");
    } catch (error) {
      setProblem((error as Error).message);
    }
  }, []);
  useEffect(() => {
    void refresh();
    const timer = setInterval(refresh, 2_000);
    return () => clearInterval(timer);
  }, [refresh]);
  return (
    <main className="approvals">
      <h2>Waiting for you</h2>
      <p role="alert">{problem}</p>
      {items?.length === 0 && <p className="hint">Nothing waits for a decision.</p>}
      {items?.map((item) => (
        <Card key={item.approvalId} item={item} onDecided={refresh} onOpen={() => setOpen(item)} />
      ))}
      {open && <CustomerChat key={open.conversationId} of={open} onClose={() => setOpen(undefined)} />}
    </main>
  );
}

interface CardProps {
  readonly item: Approval;
  onDecided(): Promise<void>;
  onOpen(): void;
}

function Card({ item, onDecided, onOpen }: CardProps) {
  const { approvalId, userId, toolName, input, requestedAt, mayReadConversation } = item;
  const [reason, setReason] = useState("");
  const [problem, setProblem] = useState("");
  async function answer(approved: boolean): Promise<void> {
    try {
      await decide(approvalId, approved, reason);
    } catch (error) {
      setProblem((error as Error).message); // another manager may have been faster
    }
    await onDecided();
  }
  const title = `${toTitle(toolName)} for ${userId}`;
  return (
    <article aria-label={title}>
      <h3>{title}</h3>
      <dl>
        {Object.entries(input).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{String(value)}</dd>
          </div>
        ))}
        <div>
          <dt>requested</dt>
          <dd>{new Date(requestedAt).toLocaleString()}</dd>
        </div>
      </dl>
      <input
        aria-label="Reason"
        placeholder="Reason, if you decline"
        value={reason}
        onChange={(event) => setReason(event.target.value)}
      />
      <button className="primary" onClick={() => answer(true)}>
        Approve
      </button>
      <button onClick={() => answer(false)}>Decline</button>
      {mayReadConversation && <button onClick={onOpen}>Open the chat</button>}
      <p role="alert">{problem}</p>
    </article>
  );
}
