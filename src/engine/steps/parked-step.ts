import { toIso } from "../../core/iso-time.ts";
import type { JsonText } from "../../core/json.ts";
import type { Due } from "../execution.ts";
import type { JournalRow } from "../runs/journal-row.ts";
import type { StepTraits } from "../definition/step-traits.ts";
import { fromEntryKey, stableKeyOf, toStableKey, toWakeKey } from "../walk/journal-keys.ts";
import { toValue, type Value } from "../walk/value.ts";

/** A step that waits for a person, a time or an event. */
export interface ParkedStep {
  /** The time at which the wait began. */
  readonly at: number;
  /** The journal key of the wake-up row. */
  readonly wakeKey: string;
  readonly kind: "person" | "timer" | "event";
  readonly reason: string;
  readonly data?: Value;
  /** The end time of the wait, if it has one. */
  readonly dueAt?: number | undefined;
  /** The name and the key of the event. */
  readonly event?: string | undefined;
  readonly key?: string | undefined;
}

/** The wait of a step that called `suspend`, from its row. `count` is the number of its waits. */
export function toSuspendedStep({ id, key, body, at }: JournalRow, count: number): ParkedStep {
  const { reason, data, due } = JSON.parse(body!) as { reason: string; data?: JsonText; due?: Due };
  const wakeKey = toWakeKey(stableKeyOf(key), count);
  return { at, wakeKey, kind: "person", reason, data: toValue(data, id), dueAt: due?.at };
}

/** The wait for a time or an event, from the entry that was recorded before it. `at` is the time at which it begins. */
export function toWaitingStep({ passesOn }: StepTraits, { key: entry, body }: JournalRow, at: number): ParkedStep {
  const { ms, date, event = "", key } = JSON.parse(body!) as RecordedWait; // short: its code is ours
  const { path, generation } = fromEntryKey(entry)!;
  const wakeKey = toWakeKey(toStableKey(path, "", generation), 1);
  const dueAt = ms !== undefined ? at + ms : date === undefined ? undefined : Date.parse(date);
  if (passesOn) return { at, wakeKey, kind: "timer", reason: `Sleeping until ${toIso(dueAt ?? at)}`, dueAt };
  return { at, wakeKey, kind: "event", reason: `Waiting for event ${event}`, dueAt, event, key: key || undefined };
}

interface RecordedWait {
  readonly ms?: number;
  readonly date?: string;
  readonly event?: string;
  readonly key?: string;
}
