/** The authenticated user of a request. */
export interface Caller {
  /** The user that the provider returned for the token, as frozen plain JSON. */
  readonly user: Readonly<Record<string, unknown>>;
  /** The `id` of the user. Undefined if the user has none. */
  readonly userId?: string | undefined;
}

/**
 * The caller of a console session under a provider. `authorize` is not asked about it. It is recognized by its user
 * object: a provider may return a user with the same id.
 */
export const consoleCaller: Caller = Object.freeze({ user: Object.freeze({ id: "console" }), userId: "console" });

/** The identity of a request: its caller, and the rules for the claims in its body. */
export interface Identity {
  /** True if there is an authentication provider. `user` and `userId` in a request body are then ignored. */
  readonly checked: boolean;
  /** True if an execution is visible only to the user who started it, unless the `authorize` of its workflow decides. */
  readonly ownership: boolean;
  /** Undefined for an anonymous request. */
  readonly caller: Caller | undefined;
  /** True for a request with a console session. `dev` prints its link. */
  readonly isConsole?: boolean | undefined;
}

export const unchecked: Identity = { checked: false, ownership: false, caller: undefined };
/** The identity of a request that was refused before its caller was known. */
export const anonymous: Identity = { checked: true, ownership: true, caller: undefined };

/** Returns the context map of steps, tools and hooks. Each call returns a new copy. */
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

/** The body fields in which a client describes itself. */
export interface Claims {
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}
/** Returns the trusted part of a client's claims. With a provider, the user comes only from the provider. */
export function applyIdentity(
  { context = {}, userId, conversationId }: Claims,
  { checked, caller }: Identity,
): CallContext {
  if (!checked) return { context, userId, conversationId };
  const { user: _user, userId: _userId, ...rest } = context;
  return { context: rest, conversationId, ...caller };
}
