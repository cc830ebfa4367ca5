import type { Logger } from "../core/log.ts";

/** The context of one agent call. Hooks, tools and instructions receive it. */
export interface AgentContext {
  /** The id of this call. */
  readonly operationId: string;
  /** The id of the user, if known. */
  readonly userId?: string | undefined;
  /** The id of the conversation, if the request has one. */
  readonly conversationId?: string | undefined;
  /**
   * The values of `options.context` of the request. Also has the keys `userId`, `conversationId` and `user`, if known.
   */
  readonly context: ReadonlyMap<string, unknown>;
  /**
   * The user who has approved this tool call, as the authentication provider returned it. Without a provider, it has only the
   * `id` that the request names. Set only for a call that needed an approval.
   */
  readonly approvedBy?: Readonly<Record<string, unknown>> | undefined;
  /**
   * Aborted when the client disconnects, the model times out, a hook throws, or the server shuts down. In a workflow,
   * it is also aborted together with the step.
   */
  readonly signal: AbortSignal;
  /** A logger that adds the ids of this call to every record. */
  readonly logger: Logger;
}
