import { Button } from "./parts/button.tsx";
import { Problem } from "./parts/states.tsx";
import { useEffect } from "preact/hooks";
import { actingUser } from "./acting-user.ts";
import { connection, follow } from "./server/live.ts";
import { Notices } from "./parts/notices.tsx";
import { Text } from "./parts/text.tsx";
import { UserField } from "./user-field.tsx";
import { place, toLink } from "./place.ts";
import { ProblemBanner } from "./problem.tsx";
import { signIn, signInState, signOut, type Session } from "./session.ts";
import { Agent } from "./views/agents/agent.tsx";
import { AgentList } from "./views/agents/agent-list.tsx";
import { Chat } from "./views/agents/chat/chat.tsx";
import { Inbox } from "./views/inbox.tsx";
import { followWaiting, waitingCount } from "./waiting.ts";
import { Log } from "./views/log.tsx";
import { Routes } from "./views/routes.tsx";
import { Run } from "./views/run.tsx";
import { Runs } from "./views/runs.tsx";
import { Schedules } from "./views/schedules.tsx";
import { SignIn } from "./views/sign-in.tsx";
import { Traces } from "./views/traces.tsx";
import { Workflow } from "./views/workflow.tsx";
import { Workflows } from "./views/workflows.tsx";

/** The whole page. */
export function Console() {
  const state = signInState.value;
  return (
    <>
      {state.type === "opening" && <p class="hint centred">Opening …</p>}
      {state.type === "closed" && <SignIn reason={state.reason} />}
      {state.type === "failed" && (
        <main class="centred">
          <h1>agentserve</h1>
          <Problem message={state.error.status === 403 ? "You may not use the console" : state.error.message} />
          <Button class="first" onClick={() => void signIn()}>
            Try again
          </Button>
          {state.error.status === 403 && <Button onClick={() => void signOut()}>Use another token</Button>}
        </main>
      )}
      {state.type === "open" && <Shell session={state.session} />}
      <Notices />
    </>
  );
}

const views = [
  ["inbox", "Inbox"],
  ["runs", "Runs"],
  ["agents", "Agents"],
  ["workflows", "Workflows"],
  ["schedules", "Schedules"],
  ["log", "Log"],
  ["traces", "Traces"],
  ["routes", "Routes"],
] as const;

function Shell({ session }: { session: Session }) {
  useEffect(() => {
    const controller = new AbortController();
    void follow(controller.signal);
    followWaiting(controller.signal);
    return () => controller.abort();
  }, []);
  const current = place.value.segments[0] ?? "inbox";
  const inboxCount = waitingCount.value;
  const shown = views.filter(([name]) => name !== "routes" || session.isSignedInByLink);
  return (
    <>
      <a class="skip" href="#main" onClick={focusMain}>
        Skip to content
      </a>
      <header class="top">
        <strong>
          agentserve <small>{session.version}</small>
        </strong>
        <nav aria-label="Console">
          {shown.map(([name, title]) => (
            <a key={name} href={toLink([name])} aria-current={current === name ? "page" : undefined}>
              {title}
              {name === "inbox" && <Count of={inboxCount} />}
            </a>
          ))}
        </nav>
        <SessionState session={session} />
      </header>
      {connection.value === "lost" && (
        <p class="banner" role="status">
          Lost the connection to the server. Trying again …
        </p>
      )}
      <ProblemBanner />
      <main id="main" tabIndex={-1}>
        <View />
      </main>
    </>
  );
}

function Count({ of: count }: { of: number }) {
  if (count === 0) return null;
  return (
    <>
      {" "}
      <span class="count">{count > 99 ? "99+" : count}</span>
    </>
  );
}

function focusMain(event: Event): void {
  event.preventDefault(); // the fragment is the place of the page
  document.getElementById("main")?.focus();
}

function SessionState({ session: { user, canAct, readOnly, mode, isSignedInByLink, auth } }: { session: Session }) {
  const state = readOnly ? "read-only" : canAct ? undefined : "may only look";
  return (
    <span class="session">
      <span class="tag">{mode}</span>
      {state && <span class="tag">{state}</span>}
      <UserField />
      {auth && user && !isSignedInByLink && (
        <>
          <Text value={user.id} />
          <Button class="small" onClick={() => void signOut()}>
            Sign out
          </Button>
        </>
      )}
    </span>
  );
}

function View() {
  const [name = "inbox", first, second] = place.value.segments;
  if (name === "runs" && first !== undefined && second !== undefined)
    return <Run key={`${first}/${second}`} workflowId={first} executionId={second} />;
  if (name === "runs") return <Runs />;
  if (name === "agents") return <Agents key={actingUser()} agentId={first} id={second} />;
  if (name === "workflows" && first !== undefined) return <Workflow key={first} id={first} />;
  if (name === "workflows") return <Workflows />;
  if (name === "schedules") return <Schedules />;
  if (name === "log") return <Log />;
  if (name === "traces") return <Traces />;
  if (name === "routes") return <Routes />;
  return <Inbox />;
}

/** The agents, one of them, or one conversation with it. */
function Agents({ agentId, id }: { agentId: string | undefined; id: string | undefined }) {
  if (agentId === undefined) return <AgentList />;
  if (id === undefined) return <Agent key={agentId} id={agentId} />;
  return <Chat key={`${agentId}/${id}`} agentId={agentId} id={id} />;
}
