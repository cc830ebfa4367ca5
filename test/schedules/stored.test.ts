import { expect, it } from "vitest";
import { changeSchedule, type ScheduleChange, type StoredSchedule } from "../../src/engine/contract/schedules.ts";

const play = (...changes: ScheduleChange[]): StoredSchedule =>
  changes.reduce<StoredSchedule | undefined>((stored, change) => changeSchedule("s", stored, change), undefined)!;
const hold = (at: number): ScheduleChange => ({ tick: { at, isHeld: true } });
const done = (at: number): ScheduleChange => ({ tick: { at, isHeld: false } });

it("moves a stored schedule not back when a late replica stores an old tick", () => {
  expect(play(hold(2), done(2), hold(3), hold(2))).toMatchObject({ doneAt: 3, lastAt: 3, heldAt: 3 });
  expect(play(done(3), done(2))).toMatchObject({ doneAt: 3, lastAt: 3 });
  expect(play(hold(2), hold(2))).toMatchObject({ doneAt: 2, heldAt: 2 });
});

it("removes a tick that has begun from held and missed ones", () => {
  expect(play(hold(2), done(2)).heldAt).toBeUndefined();
  expect(play({ missed: [1, 2, 3], doneAt: 5 }, done(2))).toMatchObject({ missed: [1, 3], doneAt: 5 });
});
