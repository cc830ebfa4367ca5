import type { Caller } from "../core/caller.ts";
import { deepFreeze, isObject } from "../core/json.ts";

const made = new WeakSet<object>();

/**
 * Returns a frozen copy of a user as plain JSON. The user is journaled, so it must be the same before and after a
 * restart. Frozen, because a change by one request must not be visible to the next one.
 */
export function toUser(user: unknown): Caller["user"] {
  if (!isObject(user)) throw new Error("the provider returned no user");
  if (made.has(user)) return user;
  const copy = deepFreeze(JSON.parse(JSON.stringify(user)) as Caller["user"]);
  made.add(copy);
  return copy;
}

export function toCaller(given: unknown): Caller {
  const user = toUser(given);
  return { user, userId: toUserId(user["id"]) };
}

function toUserId(id: unknown): string | undefined {
  if (id === undefined || id === null) return undefined;
  if (isUserId(id)) return String(id);
  throw new Error("the id of the user must be a non-empty string or a safe integer");
}

/** Accepts numbers, because many databases use them as ids. Unsafe integers could give two users the same id. */
export function isUserId(id: unknown): id is string | number {
  // A lone surrogate cannot be stored: two such ids would become the same one.
  return typeof id === "string" ? id !== "" && id.isWellFormed() : Number.isSafeInteger(id);
}
