/** The authenticated user of a request. */
export interface Caller {
  readonly user: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
}

/** The identity of a request: the caller, and the rules for what a client may say about itself. */
export interface Identity {
  /** Whether there is an authentication provider. With one, `user` and `userId` sent by a client are ignored. */
  readonly checked: boolean;
  /** Whether an execution is visible only to the user who started it. */
  readonly ownership: boolean;
  /** Undefined for an anonymous request. */
  readonly caller: Caller | undefined;
}

export const unchecked: Identity = { checked: false, ownership: false, caller: undefined };

/** The context map of steps, tools and hooks. Every call makes a copy. */
export function toContextMap({ context, userId, conversationId, user }: CallContext): Map<string, unknown> {
  const map = new Map(Object.entries(structuredClone(context)));
  if (userId !== undefined) map.set("userId", userId);
  if (conversationId !== undefined) map.set("conversationId", conversationId);
  if (user !== undefined) map.set("user", structuredClone(user));
  return map;
}
export interface CallContext extends Partial<Caller> {
  readonly context: Readonly<Record<string, unknown>>;
  readonly conversationId?: string | undefined;
}

/** The part of a request body in which a client speaks about itself. */
export interface Claims {
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}
/** The claims of a client as far as they are trusted: with a provider, the user is only ever the one that it returned. */
export function applyIdentity(
  { context = {}, userId, conversationId }: Claims,
  { checked, caller }: Identity,
): CallContext {
  if (!checked) return { context, userId, conversationId };
  const { user: _user, userId: _userId, ...rest } = context;
  return { context: rest, conversationId, ...caller };
}
