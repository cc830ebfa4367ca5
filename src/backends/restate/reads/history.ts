import { setTimeout as sleep } from "node:timers/promises";
import type { HistoryRow } from "../../../engine/contract/engine.ts";
import type { States } from "./states.ts";
import type { StoredEvents } from "./stored-events.ts";

/** The time in which the row of the last transition comes: its drive stores it after the register has made the transition. */
const lagMs = 2_000;
const pauseMs = 20;

/** The rows of an execution, a page at a time. They include the transition that a caller has seen, unless it is late. */
export async function* readHistory(
  states: States,
  stored: StoredEvents,
  id: string,
): AsyncGenerator<readonly HistoryRow[]> {
  const brief = await states.brief(id);
  if (!brief) return;
  const until = performance.now() + lagMs;
  for (let next = 0; ;) {
    const { rows, last } = await stored.shortRows(id, next);
    next += rows.length;
    if (rows.length > 0) yield rows;
    if (last && next <= last.number) continue;
    const isWhole = brief.status === "running" || (last?.epoch ?? 0) >= brief.epoch;
    if (isWhole || performance.now() > until) return;
    await sleep(pauseMs);
  }
}
