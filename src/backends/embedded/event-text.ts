import type { EventBody } from "../../engine/events.ts";

// Most of what a file holds are starts and ends of steps: they are kept without the names of their fields.
type Started = readonly [0, from: string, stepIndex: number, stepType: string, attempt: number];
type Completed = readonly [1, from: string, stepIndex: number, stepType: string, attempt: number, status: string];

/** Events as they are stored. */
export function toEventText(events: readonly EventBody[]): string {
  return JSON.stringify(events.map(shorten));
}

export function fromEventText(text: string): EventBody[] {
  return (JSON.parse(text) as (EventBody | Started | Completed)[]).map(lengthen);
}

function shorten(event: EventBody): EventBody | readonly unknown[] {
  const { type, from, stepIndex, stepType, attempt, status } = event;
  if (type === "step-start") return [0, from, stepIndex, stepType, attempt];
  if (type === "step-complete") return [1, from, stepIndex, stepType, attempt, status];
  return event;
}

function lengthen(event: EventBody | Started | Completed): EventBody {
  if (!isShort(event)) return event;
  const [, from, stepIndex, stepType, attempt, status] = event;
  const step = { from, stepIndex, stepType, attempt };
  return event[0] === 0 ? { type: "step-start", ...step } : { type: "step-complete", ...step, status };
}

const isShort = (event: EventBody | Started | Completed): event is Started | Completed => Array.isArray(event);
