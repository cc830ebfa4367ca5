/** Who is calling, as the authentication provider said. */
export interface Caller {
  readonly user: Readonly<Record<string, unknown>>;
  readonly userId?: string | undefined;
}

/** Who asks, as far as this server knows. */
export interface Identity {
  /** Whether there is a provider. Then nothing counts that a client says about itself; without one that is all there is. */
  readonly checked: boolean;
  /** Whether an execution is there only for the user who began it. */
  readonly ownership: boolean;
  /** Undefined for whoever is not, or cannot be, authenticated. */
  readonly caller: Caller | undefined;
}

export const unchecked: Identity = { checked: false, ownership: false, caller: undefined };

/** What a caller sent along, and who it is, as steps, tools and hooks see it: a copy of their own. */
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

/** What a client says of itself and its request. */
export interface Claims {
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
}
/** Of these claims, what counts. With a provider, who the user is is only ever what the provider said. */
export function applyIdentity(
  { context = {}, userId, conversationId }: Claims,
  { checked, caller }: Identity,
): CallContext {
  if (!checked) return { context, userId, conversationId };
  const { user: _user, userId: _userId, ...rest } = context;
  return { context: rest, conversationId, ...caller };
}
