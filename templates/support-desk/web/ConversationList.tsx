import type { ConversationItem } from "./api.ts";

interface Props {
  readonly items: readonly ConversationItem[];
  readonly openId: string;
  onOpen(id: string): void;
  onNew(): void;
  onDelete(id: string): void;
}

export function ConversationList({ items, openId, onOpen, onNew, onDelete }: Props) {
  return (
    <nav aria-label="Conversations">
      <button className="primary" aria-label="New conversation" onClick={onNew}>
        New
      </button>
      <ul>
        {items.map(({ id, title }) => (
          <li key={id} className={id === openId ? "open" : ""}>
            <button aria-current={id === openId ? "page" : undefined} onClick={() => onOpen(id)}>
              {title}
            </button>
            <button aria-label={`Delete ${title}`} title="Delete" onClick={() => onDelete(id)}>
              ×
            </button>
          </li>
        ))}
      </ul>
    </nav>
  );
}
