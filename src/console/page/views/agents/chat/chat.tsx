import { Button } from "../../../parts/button.tsx";
import { useEffect, useMemo } from "preact/hooks";
import { conversationUser } from "../../../acting-user.ts";
import { ask, path } from "../../../server/api.ts";
import { reconnects } from "../../../server/live.ts";
import { useLoaded } from "../../../server/load.ts";
import { act } from "../../../parts/notices.tsx";
import { Text, Link } from "../../../parts/text.tsx";
import { go, toLink } from "../../../place.ts";
import type { AgentDetail } from "../agent-detail.ts";
import { ChatSession } from "./chat-session.ts";
import { Composer } from "./composer.tsx";
import { ConversationActions } from "../conversation-actions.tsx";
import { ConversationList } from "../conversation-list.tsx";
import { Message } from "../message/message.tsx";
import { toEnd, useStickyEnd } from "./sticky-end.ts";

/** A conversation with an agent. */
export function Chat({ agentId, id }: { agentId: string; id: string }) {
  const agent = useLoaded((signal) => ask<AgentDetail>(path`/agents/${agentId}`, { signal }), [agentId]);
  const user = conversationUser();
  const session = useMemo(() => new ChatSession(agentId, id), [agentId, id, user]);
  useEffect(() => {
    session.open();
    return () => session.close();
  }, [session]);
  const epoch = reconnects.value;
  useEffect(() => {
    if (epoch > 0) void session.check();
  }, [epoch, session]);
  const title = session.conversation.value?.title;
  const name = agent.value?.name ?? agentId;
  return (
    <div class="chat-view">
      <aside>{!session.isOther.value && <ConversationList agentId={agentId} current={id} />}</aside>
      <section class="chat" aria-labelledby="chat-title">
        <div class="actions heading">
          <div>
            <Link to={toLink(["agents", agentId])} text={name} />
            <h1 id="chat-title">
              <Text value={title ?? (session.phase.value === "opening" ? "…" : "New conversation")} />
            </h1>
          </div>
          {title !== undefined && (
            <ConversationActions
              agentId={agentId}
              id={id}
              title={title}
              onRenamed={() => void session.refresh()}
              onDeleted={() => go(["agents", agentId])}
            />
          )}
        </div>
        <Messages session={session} agentId={agentId} id={id} agent={agent.value} />
        <ChatState session={session} />
        <Composer session={session} />
      </section>
    </div>
  );
}

interface MessagesProps {
  readonly session: ChatSession;
  readonly agentId: string;
  readonly id: string;
  readonly agent: AgentDetail | undefined;
}

function Messages({ session, agentId, id, agent }: MessagesProps) {
  const messages = session.messages.value;
  const phase = session.phase.value;
  const { isAway, box, keepPlace } = useStickyEnd(messages);
  const lastOwn = messages.findLast(({ role, metadata }) => role === "user" && !metadata?.author)?.id;
  const showEarlier = (): void => void keepPlace(() => act("Earlier messages are shown", () => session.showEarlier()));
  return (
    <>
      {session.hasMore.value && (
        <Button class="small" onClick={showEarlier}>
          Show earlier messages
        </Button>
      )}
      {phase === "opening" && <p class="hint">Loading …</p>}
      {phase === "ready" && messages.length === 0 && (
        <p class="hint empty">
          Nothing was said yet. Write a message below, and add files by choosing, pasting or dropping them.
        </p>
      )}
      <div ref={box} class="messages" aria-busy={phase === "busy"}>
        {messages.map((message, index) => (
          <Message
            key={message.id}
            session={session}
            message={message}
            asked={messages[index - 1]}
            isLast={index === messages.length - 1}
            isLastOwn={message.id === lastOwn}
            phase={phase}
            agentId={agentId}
            conversationId={id}
            agent={agent}
          />
        ))}
      </div>
      {isAway && phase === "busy" && (
        <Button class="small to-end" onClick={toEnd}>
          Go to the end
        </Button>
      )}
    </>
  );
}

/** Says what is going on: a turn that runs, a lost connection, an error. */
function ChatState({ session }: { session: ChatSession }) {
  const phase = session.phase.value;
  const problem = session.problem.value;
  const isWaiting = phase === "busy" && session.messages.value.at(-1)?.role === "user";
  return (
    <>
      {isWaiting && !session.isLost.value && <p class="hint">The agent has not answered yet …</p>}
      {session.isLost.value && (
        <p class="problem" role="status">
          Lost the connection. The answer continues at the server; trying again …
        </p>
      )}
      {problem && (
        <div class="problem" role="alert">
          <p>
            <Text value={problem.message} />
          </p>
          {problem.detail !== undefined && (
            <p>
              <small>
                <Text value={problem.detail} />
              </small>
            </p>
          )}
          {phase === "ready" && problem.status !== 413 && <TryAgain session={session} />}{" "}
          {problem.detail === undefined && (problem.status ?? 500) >= 500 && <a href={toLink(["log"])}>See the log</a>}
        </div>
      )}
      {!problem && session.isUnanswered.value && !session.isOther.value && (
        <p class="hint">
          This message has no answer: its turn has failed, or was stopped. <TryAgain session={session} />
        </p>
      )}
    </>
  );
}

const TryAgain = ({ session }: { session: ChatSession }) => (
  <Button class="small" acts onClick={() => void session.tryAgain()}>
    Try again
  </Button>
);
