import { isDeepStrictEqual } from "node:util";
import type { Asked } from "./oracle.ts";
import { letterName, letters, sleepMs } from "./workload.ts";

/** A deadline after which nobody waits here. */
export const farMs = 600_000;

/** Whether an execution that is suspended like this continues without a resume, by a time or an event. */
export function endsByItself(suspension: any): boolean {
  if (suspension.kind === "timer" || suspension.kind === "event") return true;
  return suspension.deadline !== undefined && Date.parse(suspension.deadline) < Date.now() + farMs / 2;
}

/** The branches of `post` that wait at the same time for a time or an event. The first one is shown. */
const groups = [["night"], ["letter", "dusk"], ["letter"], ["dusk"], ["second"]];
const places: Record<string, number> = { night: 1, letter: 2, dusk: 2, second: 4 };

/** The suspension that is expected in place of one that was found. The times are the found ones, if they can be right. */
export function toExpectedWait(asked: Asked, executionId: string, found: any): unknown {
  if (found.stepId === "reply") return toExpectedReply(asked, found);
  const pending: any[] = found.pending ?? [found];
  const group = groups.find((steps) =>
    isDeepStrictEqual(
      steps,
      pending.map(({ stepId }) => stepId),
    ),
  );
  if (!group) return { pending: groups };
  const expected = group.map((stepId, index) => {
    const { suspendedAt } = pending[index];
    const place = { suspendedAt, stepIndex: places[stepId], stepId };
    if (stepId === "letter" || stepId === "second")
      return {
        ...place,
        kind: "event",
        reason: `Waiting for event ${letterName}`,
        event: letterName,
        key: executionId,
      };
    const wakeAt = toTime(pending[index].wakeAt, suspendedAt, sleepMs);
    return { ...place, kind: "timer", reason: `Sleeping until ${wakeAt}`, wakeAt };
  });
  return { ...expected[0], ...(expected.length > 1 && { pending: expected }) };
}

function toExpectedReply({ n, settings }: Asked, { suspendedAt, deadline }: any): unknown {
  const given = n + 1 + 7 + letters[0].amount + letters[1].amount;
  return {
    suspendedAt,
    stepIndex: 6,
    stepId: "reply",
    reason: "reply 0",
    kind: "person",
    data: { n: given, round: 0 },
    deadline: toTime(deadline, suspendedAt, settings.deadlineMs),
  };
}

/** A time, if it is at most so much after another one. */
function toTime(time: string, from: string, ms: number): string {
  return Date.parse(time) <= Date.parse(from) + ms ? time : `at most ${ms} ms after ${from}`;
}
