import { Bar } from "../../parts/bar.tsx";
import type { StepView } from "../../step-list.ts";

/** The time of an execution, in milliseconds since 1970. */
export interface TimeSpan {
  readonly from: number;
  readonly to: number;
}

/** The time of a step within that of its execution. */
export function StepBar({ step: { startAt, endAt, status }, span: { from, to } }: { step: StepView; span: TimeSpan }) {
  const length = Math.max(to - from, 1);
  const end = endAt === null ? to : Date.parse(endAt);
  return <Bar status={status} left={(Date.parse(startAt) - from) / length} right={(end - from) / length} />;
}
