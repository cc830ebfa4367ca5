import { forbidden, type ActionRequest } from "../../core/access/authorizer.ts";

/** The usage that a caller may read: that of a user, or of all users. Undefined: none. */
export type ReadableUsage = { readonly userId: string | undefined } | undefined;

/**
 * Decides which usage of an agent the caller gets: by `authorize`, else by `ownership`. `userId` is the user that the caller
 * asks for. Rejects with 403 if the caller may not read it.
 */
export async function findReadable(
  { action, identity, snapshot: { authorizer } }: ActionRequest,
  agentId: string,
  userId: string | undefined,
): Promise<ReadableUsage> {
  const { ownership, caller } = identity;
  const own = caller?.userId;
  const isOwn = own !== undefined && userId === own;
  const usage = Object.freeze({ userId, isOwn });
  const allowed = await authorizer?.ask({ action, user: caller?.user, agentId, usage });
  if (allowed === false) throw forbidden();
  if (allowed === true || !ownership) return { userId };
  if (userId !== undefined && !isOwn) throw forbidden();
  return own === undefined ? undefined : { userId: own }; // calls without a user have no owner
}
