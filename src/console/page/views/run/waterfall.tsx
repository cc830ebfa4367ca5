import type { StepView } from "../../steps.ts";

/** The time of an execution, in milliseconds since 1970. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** The time of a step within that of its execution. */
export function Bar({ step: { startAt, endAt, status }, span: { from, to } }: { step: StepView; span: TimeSpan }) {
  const length = Math.max(to - from, 1);
  const toPercent = (ms: number): number => Math.min(Math.max((ms / length) * 100, 0), 100);
  const left = toPercent(Date.parse(startAt) - from);
  const right = toPercent((endAt === null ? to : Date.parse(endAt)) - from);
  return (
    <span class="bar" aria-hidden="true">
      <span data-status={status} style={{ left: `${left}%`, width: `${Math.max(right - left, 0)}%` }} />
    </span>
  );
}
