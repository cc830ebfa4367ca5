/** A request that `authorize` is asked about. */
export interface Row {
  /** `METHOD path`; UPGRADE is a GET that wants a WebSocket. `{suspended}` is an execution of Ada, `{stored}` a conversation, `{waiting}` an approval. */
  readonly name: string;
  readonly action: string;
  /** `closed` needs a caller before `authorize` is asked. */
  readonly access: "open" | "closed";
  /** The answer to a caller who is allowed. */
  readonly status: number;
  readonly body?: object | undefined;
}

const row = (name: string, action: string, access: Row["access"], status = 200, body?: object): Row => ({
  name,
  action,
  access,
  status,
  body,
});
const at = "/workflows/asks/executions/{suspended}";
const input = { input: {} };

/**
 * docs/auth.md, "The actions". A new route with an action is one line here, and the test fails without it. A stream that does
 * not end is asked for by HEAD.
 */
export const rows: readonly Row[] = [
  row("POST /agents/helper/text", "agent.call", "closed", 200, { input: "Hi" }),
  row("POST /agents/helper/stream", "agent.call", "closed", 200, { input: "Hi" }),
  row("POST /agents/helper/object", "agent.call", "closed", 400, {}),
  row("POST /agents/helper/stream-object", "agent.call", "closed", 400, {}),
  row("POST /agents/helper/chat", "agent.call", "closed", 400, {}),
  row("GET /agents/helper/chat/quiet/stream", "agent.call", "closed", 204),
  row("POST /agents/helper/conversations/quiet/stop", "agent.call", "closed", 200, {}),
  row("GET /agents/helper/conversations", "conversation.read", "closed"),
  row("GET /agents/helper/conversations/{stored}", "conversation.read", "closed"),
  row("GET /agents/helper/conversations/{stored}/turns/t/steps", "conversation.read", "closed", 404), // `start` keeps none
  row("PATCH /agents/helper/conversations/{stored}", "conversation.write", "closed", 200, { title: "New" }),
  row("POST /agents/helper/conversations/{stored}/messages", "conversation.append", "closed", 201, { text: "Hi" }),
  row("DELETE /agents/helper/conversations/{stored}", "conversation.delete", "closed"),
  row("GET /agents/helper/usage", "usage.read", "closed"),
  row("GET /approvals", "approval.decide", "closed"),
  row("POST /approvals/{waiting}", "approval.decide", "closed", 200, { approved: true }),
  row("POST /workflows/asks/execute", "workflow.execute", "closed", 200, input),
  row("POST /workflows/asks/stream", "workflow.execute", "closed", 200, input),
  row(`GET ${at}/state`, "execution.read", "open"),
  row(`HEAD ${at}/state`, "execution.read", "open"),
  row(`GET ${at}/stream`, "execution.read", "closed"),
  row(`GET ${at}/steps`, "execution.read", "closed"),
  row("GET /workflows/asks/executions", "execution.read", "closed"),
  row("GET /executions", "execution.read", "closed"),
  row("HEAD /executions/stream", "execution.read", "closed"), // a GET of it does not end
  row(`POST ${at}/suspend`, "execution.suspend", "open", 400, {}), // it is suspended already
  row(`POST ${at}/resume`, "execution.resume", "open", 200, { resumeData: true }),
  row(`POST ${at}/cancel`, "execution.cancel", "closed", 200, {}),
  row(`POST ${at}/retry`, "execution.retry", "closed", 409, {}), // it has not failed
  row(`POST ${at}/fork`, "execution.fork", "closed", 200, {}),
  row("POST /events", "event.send", "closed", 202, { name: "paid" }),
  row("GET /schedules", "schedule.read", "closed"),
  row("POST /schedules/nightly/trigger", "schedule.trigger", "closed", 202),
  row("POST /schedules/nightly/pause", "schedule.pause", "closed"),
  row("POST /schedules/nightly/resume", "schedule.pause", "closed"),
  row("GET /api/logs", "log.read", "open"),
  row("UPGRADE /ws/logs", "log.read", "open", 101),
  row("UPGRADE /ws/observability", "log.read", "open", 101),
  row("GET /metrics", "metrics.read", "closed"),
  row("GET /console/session", "console.view", "closed"),
];

export const callers = ["owner", "other", "anonymous"] as const;
export type Caller = (typeof callers)[number];

/** An `authorize`, and what follows from it by docs/auth.md, "The answers". */
export interface Rule {
  readonly name: string;
  /** Whether this `authorize` allows the action. Undefined: there is none, and `ownership` decides. */
  allows(action: string, caller: Caller): boolean | undefined;
}
export const rules: readonly Rule[] = [
  { name: "none, with ownership", allows: () => undefined },
  { name: "allow", allows: () => true },
  { name: "refuse", allows: () => false },
  { name: "throw", allows: () => false },
  { name: "reject", allows: () => false },
  { name: "truthy", allows: () => false },
  { name: "time-out", allows: () => false },
  { name: "allow later", allows: () => true },
  { name: "read only", allows: (action) => action === "execution.read" },
  { name: "all but read", allows: (action) => action !== "execution.read" },
  { name: "approval", allows: (action, caller) => (action === "execution.resume" ? caller === "other" : true) },
  { name: "authenticated", allows: (_, caller) => caller !== "anonymous" },
];

export interface Expected {
  readonly status: number;
  readonly error?: string;
  /** Of a list. */
  readonly isListed?: boolean;
}

export function expected({ allows }: Rule, { name, action, access, status }: Row, caller: Caller): Expected {
  // It is asked after authentication.
  if (access === "closed" && caller === "anonymous") return { status: 401, error: "Authentication required" };
  const isAllowed = allows(action, caller);
  // A refused execution or schedule is left out of a list.
  if (name.endsWith(" /executions/stream")) return { status: 200 };
  if (name.endsWith("/executions")) return { status: 200, isListed: isAllowed ?? caller === "owner" };
  if (name.endsWith(" /schedules")) return { status: 200, isListed: isAllowed ?? true };
  // The conversation of another user is not found, whatever `authorize` says.
  if (name.endsWith("/conversations")) return { status: 200, isListed: caller === "owner" && (isAllowed ?? true) };
  if (action.startsWith("conversation.")) {
    if (caller !== "owner") return { status: 404, error: "Conversation <id> not found" };
    return (isAllowed ?? true) ? { status } : forbidden;
  }
  // Without `authorize`, only the user of the conversation decides. It may allow others, and refuse that user.
  if (action === "approval.decide") {
    const mayDecide = isAllowed ?? caller === "owner";
    if (name.startsWith("GET")) return { status: 200, isListed: mayDecide };
    return mayDecide ? { status } : caller === "owner" ? forbidden : { status: 404, error: "Approval <id> not found" };
  }
  const isAboutExecution = action.startsWith("execution.");
  if (isAllowed === undefined && isAboutExecution && caller !== "owner") return unknown;
  if (isAllowed === undefined) return guarded[action] ? { status: 403, error: guarded[action] } : { status };
  if (isAllowed) return { status };
  if (!isAboutExecution) return forbidden;
  // 404, or 403 if the caller started the execution or may read it.
  return caller === "owner" || allows("execution.read", caller) ? forbidden : unknown;
}
/** docs/auth.md, "Actions that need authorize". */
const guarded: Record<string, string> = {
  "execution.fork": "Forbidden: forks need authorize, see docs/auth.md",
  "schedule.trigger": "Forbidden: schedule commands need authorize, see docs/auth.md",
  "schedule.pause": "Forbidden: schedule commands need authorize, see docs/auth.md",
};
const forbidden: Expected = { status: 403, error: "Forbidden" };
const unknown: Expected = { status: 404, error: "Execution <id> not found" };
