// oxlint-disable vitest/no-standalone-expect -- the checks are run inside a test
import { expect } from "vitest";
import type { ExecutionState, ParkedBranch } from "../../../../src/engine/execution.ts";
import { resume } from "../../../../src/workflows/resume.ts";
import type { Luck } from "../luck.ts";
import { eventName, eventOf, isChecked } from "../values.ts";
import type { Tally } from "./tally.ts";
import type { World } from "./world.ts";

const kindOf = ({ kind = "person" }: ParkedBranch): string => kind;
export const isForPerson = (branch: ParkedBranch): boolean => kindOf(branch) === "person";

/** Whether an execution may continue without a request. */
export const isWaiting = ({ last }: ExecutionState): boolean =>
  last?.to === "suspended" && last.pending.some(({ due, event }) => due !== undefined || event !== undefined);

/** Lets some time pass; sometimes the wall clock is set to another time. */
export function passTime({ clock }: World, luck: Luck, tally: Tally): void {
  if (!clock) return;
  tally.timed++;
  clock.skip([100, 6_000, 31_000, 7_300_000][luck.pick(4)]!);
  if (luck.chance(0.05)) clock.jump((luck.pick(3) - 1) * 40_000);
}

/** Sends an event to whoever waits for its key, now or later. */
export async function send({ engine, book }: World, key: string, luck: Luck, tally: Tally): Promise<void> {
  const isBad = isChecked(key) && luck.chance(0.3); // nobody takes it
  const data = JSON.stringify(isBad ? { no: "event" } : eventOf(key));
  const event = { id: `event-${book.sent++}`, name: eventName, key, data, isFromCode: luck.chance(0.5) };
  tally.sent++;
  const answers = await Promise.all([
    engine.send(event, "half"),
    ...(luck.chance(0.3) ? [engine.send(event, "half")] : []),
  ]);
  expect(answers.toSorted(), "an event that is sent twice").toEqual(
    answers.length > 1 ? ["known", "stored"] : ["stored"],
  );
  if (luck.chance(0.1)) expect(await engine.send({ ...event, data: "1" }, "half")).toBe("conflict");
}

/** Ends waits of a suspended execution, or tries what is not allowed. Returns false for a resume as usual. */
export async function playWaits(world: World, state: ExecutionState, luck: Luck, tally: Tally): Promise<boolean> {
  const { engine, runnable } = world;
  const pending = state.last?.to === "suspended" ? state.last.pending : [];
  if (!isWaiting(state) || luck.chance(0.15)) return false;
  const isAsking = pending.some(isForPerson);
  if (isAsking && luck.chance(0.5)) return false;
  const ask = async (stepId: string | undefined, whenLeft: number): Promise<void> => {
    const [answer] = await Promise.allSettled([resume(engine, runnable, state, { stepId, resumeData: "not used" })]);
    if (answer!.status === "fulfilled") expect(whenLeft, `a resume of ${stepId ?? "a wait"}`).toBe(200);
    // It may have continued by itself meanwhile.
    else expect([whenLeft, 404], String(answer!.reason)).toContain(answer!.reason.status);
  };
  const skippable = pending.find((one) => one.isSkippable);
  const fixed = pending.find((one) => !one.isSkippable && !isForPerson(one));
  const waits = pending.flatMap(({ event }) => event ?? []);
  const isTimed = pending.some(({ due }) => due !== undefined);
  switch (luck.pick(5)) {
    case 0:
      if (skippable) tally.skipped++;
      if (skippable) await ask(skippable.stepId, 200);
      break;
    case 1:
      if (!isAsking) await ask(undefined, 409);
      else if (fixed) await ask(fixed.stepId, 409);
      break;
    case 2:
      if (isTimed) passTime(world, luck, tally);
      break;
    default:
      if (waits.length > 0) await send(world, waits[luck.pick(waits.length)]!.key ?? "", luck, tally);
      else passTime(world, luck, tally);
  }
  return true;
}
