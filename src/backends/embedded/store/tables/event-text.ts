import type { EventBody } from "../../../../engine/events.ts";

// Starts and completions of steps are most of a file. They are stored without the names of their fields.
type StepStart = readonly [0, from: string, stepIndex: number, stepType: string, attempt: number];
type StepComplete = readonly [1, from: string, stepIndex: number, stepType: string, attempt: number, status: string];

/** Events as they are stored. */
export function toEventText(events: readonly EventBody[]): string {
  return JSON.stringify(events.map(shorten));
}

export function fromEventText(text: string): EventBody[] {
  return (JSON.parse(text) as (EventBody | StepStart | StepComplete)[]).map(lengthen);
}

function shorten(event: EventBody): EventBody | readonly unknown[] {
  const { type, from, stepIndex, stepType, attempt, status } = event;
  if (type === "step-start") return [0, from, stepIndex, stepType, attempt];
  if (type === "step-complete") return [1, from, stepIndex, stepType, attempt, status];
  return event;
}

function lengthen(event: EventBody | StepStart | StepComplete): EventBody {
  if (!isShort(event)) return event;
  const [, from, stepIndex, stepType, attempt, status] = event;
  const step = { from, stepIndex, stepType, attempt };
  return event[0] === 0 ? { type: "step-start", ...step } : { type: "step-complete", ...step, status };
}

const isShort = (event: EventBody | StepStart | StepComplete): event is StepStart | StepComplete =>
  Array.isArray(event);
