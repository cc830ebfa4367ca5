import { toShort } from "./screen.ts";

/** A step that waits, as `state`, `steps` and events show it. */
export interface Wait {
  readonly kind?: unknown;
  readonly reason?: unknown;
  readonly wakeAt?: unknown;
  readonly deadline?: unknown;
  readonly event?: unknown;
  readonly key?: unknown;
}

/** Returns the text of a wait: `sleeps until …`, `waits for the event …`, or `waits: <reason>`. `also` tells of other steps. */
export function toWaitText({ kind, reason, wakeAt, deadline, event, key }: Wait, also = ""): string {
  const until = deadline === undefined ? "" : ` until ${toShort(deadline, 40)}`;
  if (kind === "timer" && wakeAt !== undefined) return `sleeps until ${toShort(wakeAt, 40)}${also}`;
  if (kind === "event" && event !== undefined)
    return `waits for the event ${toShort(event, 200)}${key === undefined ? "" : ` ${toShort(key, 256)}`}${until}${also}`;
  return `waits${until}${also}: ${toShort(reason, 2_000)}`;
}

/** True if an answer ends the wait. */
export const needsAnswer = ({ kind }: Wait): boolean => kind !== "timer" && kind !== "event";
