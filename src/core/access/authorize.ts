import type { Caller } from "../caller.ts";

/** The actions that `authorize` is asked about. */
const actions = [
  "agent.call",
  "workflow.execute",
  "execution.read",
  "execution.inspect",
  "execution.suspend",
  "execution.resume",
  "execution.cancel",
  "execution.retry",
  "execution.fork",
  "event.send",
  "schedule.read",
  "schedule.trigger",
  "schedule.pause",
  "conversation.read",
  "conversation.write",
  "conversation.delete",
  "conversation.append",
  "conversation.others.list",
  "conversation.others.read",
  "conversation.others.write",
  "conversation.others.delete",
  "conversation.others.append",
  "usage.read",
  "approval.decide",
  "log.read",
  "metrics.read",
  "console.view",
  "console.act",
] as const;
/**
 * An action that `authorize` is asked about: the call of an agent, the start of a workflow, an operation on an execution,
 * a schedule or a conversation, the decision about a tool call, a request for usage, logs or metrics, or the use of the
 * console. Later versions add actions.
 */
export type Action = (typeof actions)[number];

/**
 * Decides about one request: `true` allows it, everything else refuses it. It is asked after authentication and before the
 * body is read. An error, or no answer within 5 seconds, refuses the request and is logged.
 */
export type Authorize = (request: AuthorizeRequest) => boolean | Promise<boolean>;

/** The argument of `authorize`. Frozen, like every value in it. */
export interface AuthorizeRequest {
  readonly action: Action;
  /** The user that the authentication provider returned. Undefined for an anonymous caller. */
  readonly user: Caller["user"] | undefined;
  /** The id of the workflow. Set for `workflow.execute` and for every action on an execution or a schedule. */
  readonly workflowId?: string | undefined;
  /** The id of the agent. Set for `agent.call`, `usage.read`, `approval.decide` and every question about a conversation. */
  readonly agentId?: string | undefined;
  /** The id of the schedule. Set for every action on a schedule. */
  readonly scheduleId?: string | undefined;
  /** The execution. Set for every action on an execution, except `execution.inspect` for model calls in a conversation. */
  readonly execution?: AuthorizeExecution | undefined;
  /** The conversation. Set for every action on a conversation, and for `execution.inspect` of its model calls. */
  readonly conversation?: AuthorizeConversation | undefined;
  /** The conversations that are asked for. Set for `conversation.others.list`. */
  readonly conversations?: AuthorizeConversations | undefined;
  /** The usage that is asked for. Set for `usage.read`. */
  readonly usage?: AuthorizeUsage | undefined;
  /** The tool call whose approval is pending. Set for `approval.decide`. */
  readonly approval?: AuthorizeApproval | undefined;
  /** The step to continue. Set for `execution.resume` of a suspended execution. */
  readonly stepId?: string | undefined;
}

/** An execution, as `authorize` gets it. The values are copies, read when they are used. */
export interface AuthorizeExecution {
  readonly executionId: string;
  readonly workflowId: string;
  readonly status: "running" | "suspended" | "completed" | "error";
  /** True if the caller started it. Never true for an anonymous caller, or a user without an id. */
  readonly isOwn: boolean;
  /** The id of the user who started it, as text. Undefined for an anonymous start. */
  readonly userId: string | undefined;
  /** The user who started it, as the authentication provider returned it. Undefined for an anonymous start. */
  readonly user: Caller["user"] | undefined;
  readonly conversationId: string | undefined;
  /** `options.context` of the request that started it. In a list, a long one is `{ $truncated: true, bytes }`. */
  readonly context: Readonly<Record<string, unknown>>;
  /** The time of the start, in ISO 8601. */
  readonly startAt: string;
  /**
   * The input, as the input schema of the workflow returned it. In a list, a long one is `{ $truncated: true, bytes }`.
   * It has any JSON type, because one `authorize` may serve several workflows.
   */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly input: any;
  /** The suspension, if the execution is suspended. */
  readonly suspension: AuthorizeSuspension | undefined;
}

/**
 * A conversation, as `authorize` gets it. Only the actions `conversation.others.*` are about another user's
 * conversations.
 */
export interface AuthorizeConversation {
  readonly conversationId: string;
  readonly agentId: string;
  /** The id of its user, as text. Undefined for an anonymous one. */
  readonly userId: string | undefined;
  /** True if it is the caller's conversation. Never true for an anonymous caller, or a user without an id. */
  readonly isOwn: boolean;
  readonly title: string;
  /** The time of the first turn, in ISO 8601. Null if it is not known. */
  readonly createdAt: string | null;
  /** The time of the last turn, in ISO 8601. */
  readonly updatedAt: string;
}

/** The conversations of another user with an agent, as `authorize` gets them for `conversation.others.list`. */
export interface AuthorizeConversations {
  /** The user of the query. */
  readonly userId: string;
  /** Always false: the list of the caller's own conversations is not asked about. */
  readonly isOwn: boolean;
}

/** The usage that a caller asks for, as `authorize` gets it. */
export interface AuthorizeUsage {
  /** The user of the query. Undefined if the usage of all users is asked for. */
  readonly userId: string | undefined;
  /** True if it is the caller's own. Never true for an anonymous caller, or a user without an id. */
  readonly isOwn: boolean;
}

/** A tool call whose approval is pending, as `authorize` gets it. */
export interface AuthorizeApproval {
  readonly approvalId: string;
  readonly agentId: string;
  readonly conversationId: string;
  /** The conversation's user id, as text. The tool runs for this user. Undefined for an anonymous one. */
  readonly userId: string | undefined;
  /** True if it is a conversation of the caller. Never true for an anonymous caller, or a user without an id. */
  readonly isOwn: boolean;
  readonly toolName: string;
  /**
   * The tool input. Undefined after the decision. It has any JSON type, because one `authorize` may serve several
   * tools.
   */
  // oxlint-disable-next-line typescript/no-explicit-any
  readonly input: any;
  /** The agent ids along a chain of `agentTool` calls: the last agent has the tool. Undefined for the agent's own tool. */
  readonly via?: readonly string[] | undefined;
  /** The time of the request, in ISO 8601. */
  readonly requestedAt: string;
}

/** The suspension of an execution, as `authorize` gets it. */
export interface AuthorizeSuspension {
  /** The waiting step. With several waiting branches, the first one. */
  readonly stepId: string;
  readonly reason: string;
  /** The time of the suspension, in ISO 8601. */
  readonly suspendedAt: string;
  /** The data that the step passed to `suspend()`. */
  readonly data?: unknown;
}
