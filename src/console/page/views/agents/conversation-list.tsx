import { Button } from "../../parts/button.tsx";
import { useState } from "preact/hooks";
import { actingUser, canChooseUser } from "../../acting-user.ts";
import { ask, path, toQuery } from "../../server/api.ts";
import type { Page } from "../../executions.ts";
import { useLoaded, usePolling } from "../../server/load.ts";
import { Empty, Show } from "../../parts/states.tsx";
import { Status } from "../../parts/status.tsx";
import { Text } from "../../parts/text.tsx";
import { Time } from "../../parts/time.tsx";
import { go, toLink } from "../../place.ts";
import { conversationChanges, createConversation, type Conversation } from "./conversation.ts";
import { ConversationActions } from "./conversation-actions.tsx";

const pageSize = 50;
/** The time between two reads, for conversations of other clients. */
const readMs = 10_000;

export interface ConversationListProps {
  readonly agentId: string;
  /** False: the agent stores nothing. */
  readonly memory?: boolean;
  /** The conversation that is open beside the list. */
  readonly current?: string;
}

/** The conversations with an agent, newest first, page by page. */
export function ConversationList({ agentId, memory = true, current }: ConversationListProps) {
  const [pages, setPages] = useState(1);
  const changes = conversationChanges.value;
  const conversations = useLoaded((signal) => readPages(agentId, pages, signal), [agentId, pages, changes]);
  usePolling(conversations.reload, readMs);
  return (
    <section class="conversations" aria-labelledby="conversations">
      <div class="actions heading">
        <h2 id="conversations">Conversations</h2>
        <Button class="first" acts onClick={() => go(["agents", agentId, createConversation(agentId)])}>
          New conversation
        </Button>
      </div>
      {!memory && <p class="hint">This agent stores none: a chat lasts as long as its page.</p>}
      <Show of={conversations}>
        {({ items, nextCursor }) => (
          <>
            {items.length === 0 && <NoConversations />}
            <ul class="rows">
              {items.map((conversation) => (
                <Row key={conversation.id} agentId={agentId} conversation={conversation} current={current} />
              ))}
            </ul>
            {nextCursor !== null && (
              <Button onClick={() => setPages(Math.ceil(items.length / pageSize) + 1)}>More</Button>
            )}
          </>
        )}
      </Show>
    </section>
  );
}

function NoConversations() {
  const userId = actingUser();
  if (!canChooseUser()) return <Empty>None yet.</Empty>;
  return userId === undefined ? (
    <Empty>None yet. To see those of one of your users, enter the id of the user in the field User.</Empty>
  ) : (
    <Empty>
      None of the user <Text value={userId} /> yet.
    </Empty>
  );
}

interface RowProps extends Pick<ConversationListProps, "agentId" | "current"> {
  readonly conversation: Conversation;
}

function Row({ agentId, conversation, current }: RowProps) {
  const { id, title, createdAt, updatedAt, messageCount, running } = conversation;
  return (
    <li data-current={id === current}>
      <div>
        <a href={toLink(["agents", agentId, id])} aria-current={id === current ? "page" : undefined}>
          <Text value={title || id} />
        </a>{" "}
        {running && <Status status="running" />}
        <br />
        <small>
          {messageCount} {messageCount === 1 ? "message" : "messages"} · <Time at={updatedAt} />
          {createdAt !== null && current === undefined && (
            <>
              {" "}
              · begun <Time at={createdAt} />
            </>
          )}
        </small>
      </div>
      {current === undefined && <ConversationActions agentId={agentId} id={id} title={title} />}
    </li>
  );
}

/** Reads the first pages. At most ten are shown. */
async function readPages(agentId: string, count: number, signal: AbortSignal): Promise<Page<Conversation>> {
  const items: Conversation[] = [];
  let cursor: string | undefined;
  for (let page = 0; page < Math.min(count, 10); page++) {
    const query = toQuery({ userId: actingUser(), cursor, limit: pageSize });
    const { items: more, nextCursor } = await ask<Page<Conversation>>(path`/agents/${agentId}/conversations` + query, {
      signal,
    });
    items.push(...more);
    if (nextCursor === null) return { items, nextCursor };
    cursor = nextCursor;
  }
  return { items, nextCursor: count < 10 ? (cursor ?? null) : null };
}
