import { randomBytes } from "node:crypto";

const pattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/;
const longPattern = /^[A-Za-z0-9][A-Za-z0-9._:-]{0,159}$/;

/** Checks an execution, workflow, agent or step id. Ids are part of URLs, journal keys and idempotency keys. */
export function isId(value: unknown): value is string {
  return typeof value === "string" && pattern.test(value);
}

export const idRule = "1 to 128 characters (A-Z a-z 0-9 . _ : -), starting with a letter or digit";

/** Checks the execution id of a lookup: the server's own ids may be longer than a client's. */
export const isExecutionId = (value: unknown): value is string => typeof value === "string" && longPattern.test(value);

/** The prefixes of the server's own execution ids: for children and schedules. */
const reserved = ["child:", "schedule:"];
export const isReserved = (id: string): boolean => reserved.some((prefix) => id.startsWith(prefix));
export const reservedRule: string = `expected an id that does not begin with ${reserved.join(" or ")}`;

/** Returns a UUIDv7: consecutive ids are adjacent in an index. 74 of its bits are random. */
export function newId(): string {
  const now = Date.now();
  if (now !== last.now) {
    const time = now.toString(16).padStart(12, "0");
    last = { now, prefix: `${time.slice(0, 8)}-${time.slice(8)}-7` };
  }
  return last.prefix + crypto.randomUUID().slice(15);
}
let last = { now: 0, prefix: "" };

/** Returns an id of 128 random bits, which cannot be guessed. */
export const newSecretId = (): string => randomBytes(16).toString("hex");

/** Returns true for an id in the form of `newId`. */
export const isOwnId = (id: string): boolean => /^[\da-f]{8}-[\da-f]{4}-7[\da-f]{3}-[\da-f]{4}-[\da-f]{12}$/.test(id);
