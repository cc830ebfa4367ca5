import type { Caller } from "../core/caller.ts";
import { isObject } from "../core/json.ts";

const made = new WeakSet<object>();

/**
 * A copy of a user that nobody can change, as plain JSON: it is journaled, and must be the same before and after a restart;
 * and what one request adds to it must not be there in the next one.
 */
export function toUser(user: unknown): Caller["user"] {
  if (!isObject(user)) throw new Error("the provider gave no user");
  if (made.has(user)) return user;
  const copy = freeze(JSON.parse(JSON.stringify(user)) as Caller["user"]);
  made.add(copy);
  return copy;
}

export function toCaller(given: unknown): Caller {
  const user = toUser(given);
  return { user, userId: toUserId(user["id"]) };
}

/** Many databases number their users. Two numbers too large for JavaScript would be one user. */
function toUserId(id: unknown): string | undefined {
  if (id === undefined || id === null) return undefined;
  // Half a character cannot be stored: two such users would be one, too.
  if (typeof id === "string" && id !== "" && id.isWellFormed()) return id;
  if (Number.isSafeInteger(id)) return String(id);
  throw new Error("the id of its user is neither a text nor a safe whole number");
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(freeze);
  return value;
}
