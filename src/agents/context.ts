import type { Logger } from "../core/log.ts";

/** What hooks, tools and instructions know about the call that they belong to. */
export interface AgentContext {
  /** This call of the agent. */
  readonly operationId: string;
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  /** `options.context` of the request, and the key `user` when the caller is authenticated. */
  readonly context: ReadonlyMap<string, unknown>;
  /** Aborted when the client leaves, and when the call is over time or failed. */
  readonly signal: AbortSignal;
  readonly logger: Logger;
}
