import { expect, it } from "vitest";
import type { Admissible } from "../../src/engine/runs/groups.ts";
import { nextSeat, Seat, type SeatEvent, type SeatState } from "../../src/engine/runs/seat.ts";
import { Slots } from "../../src/engine/runs/slots.ts";

const states: SeatState[] = ["waiting", "running", "lent", "resting"];
const events: SeatEvent[] = ["admit", "lend", "rest", "wake"];

it("moves a seat between waiting, running, lent and resting, and ignores every other event", () => {
  const moves = states.flatMap((state) =>
    events.flatMap((event) => {
      const next = nextSeat(state, event);
      return next === state ? [] : [`${state} -${event}-> ${next}`];
    }),
  );
  expect(moves).toEqual([
    "waiting -admit-> running",
    "running -lend-> lent",
    "running -rest-> resting",
    "lent -admit-> running",
    "lent -rest-> resting",
    "resting -wake-> waiting",
  ]);
});

it("continues code that has waited for other executions only with a slot, and after the store knows that the wait is over", async () => {
  const slots = new Slots({ running: 1, queued: 10, bytes: 1_000 });
  slots.open();
  const marks: boolean[] = [];
  const stored = Promise.withResolvers<void>();
  const run: Admissible = { admit: () => seat.admit() };
  const seat = new Seat(run, {
    slots,
    markLent: (isLent) => {
      marks.push(isLent);
      return isLent ? Promise.resolve() : stored.promise;
    },
  });
  slots.enter(run, 1);
  expect(seat.state).toBe("running");
  seat.lend();
  let isOtherAdmitted = false;
  const other: Admissible = { admit: () => (isOtherAdmitted = true) };
  slots.enter(other, 1);
  expect([seat.state, isOtherAdmitted, marks]).toEqual(["lent", true, [true]]);
  let hasRegained = false;
  const regained = seat.regain().then(() => (hasRegained = true));
  slots.leave(other);
  await new Promise(setImmediate);
  expect([hasRegained, marks]).toEqual([false, [true, false]]);
  stored.resolve();
  await regained;
  expect([seat.state, slots.running]).toEqual(["running", 1]);
});
