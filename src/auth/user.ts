import type { Caller } from "../core/caller.ts";
import type { User } from "./provider.ts";

const made = new WeakSet<object>();

/**
 * A copy of a user that nobody can change, as plain JSON: it is journaled, and must be the same before and after a restart;
 * and what one request adds to it must not be there in the next one.
 */
export function toUser(user: unknown): Readonly<User> {
  if (typeof user !== "object" || user === null || Array.isArray(user)) throw new Error("the provider gave no user");
  if (made.has(user)) return user as User;
  const copy = freeze(JSON.parse(JSON.stringify(user)) as User);
  made.add(copy);
  return copy;
}

export function toCaller(given: unknown): Caller {
  const user = toUser(given);
  return { user, userId: toUserId(user["id"]) };
}

/** Many databases number their users. Anything else than a text or a number names nobody. */
function toUserId(id: unknown): string | undefined {
  if (typeof id === "number") return String(id);
  return typeof id === "string" && id !== "" ? id : undefined;
}

function freeze<T>(value: T): T {
  if (typeof value === "object" && value !== null) Object.values(Object.freeze(value)).forEach(freeze);
  return value;
}
