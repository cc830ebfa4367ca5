import fc from "fast-check";
import { expect, it } from "vitest";
import type { Clock } from "../../src/core/clock.ts";
import { WakeClocks } from "../../src/backends/embedded/waits/wake-clocks.ts";
import type { ParkedBranch } from "../../src/engine/execution.ts";
import { Agenda } from "../../src/engine/runs/run-waits.ts";
import type { AttemptPlan } from "../../src/engine/walk/decision.ts";

/** A clock that stands still. Time passes by `pass`; `jump` sets the wall clock only. */
class StillClock implements Clock {
  #wall = 1_000_000;
  #elapsed = 500;

  now = (): number => this.#wall;
  monotonic = (): number => this.#elapsed;
  setTimeout = (): never => expect.unreachable();
  clearTimeout = (): void => {};
  pass(ms: number): void {
    this.#wall += ms;
    this.#elapsed += ms;
  }
  jump(ms: number): void {
    this.#wall += ms;
  }
}

const passes = fc.record({ type: fc.constant("pass" as const), ms: fc.nat(60) });
const jumps = fc.record({ type: fc.constant("jump" as const), ms: fc.integer({ min: -300, max: 300 }) });

it("says when each attempt and each wait of a run is due: durations by the monotonic clock, dates by the wall clock", () => {
  const adds = fc.record({
    type: fc.constantFrom("attempt" as const, "duration" as const, "date" as const),
    ms: fc.integer({ min: -20, max: 100 }),
  });
  const drops = fc.record({ type: fc.constant("drop" as const), ms: fc.nat() });
  const takes = fc.record({ type: fc.constantFrom("starts" as const, "waits" as const), ms: fc.constant(0) });
  const seen = { starts: 0, waits: 0, several: 0 };
  fc.assert(
    fc.property(fc.array(fc.oneof(adds, adds, passes, jumps, drops, takes), { maxLength: 40 }), (commands) => {
      const clock = new StillClock();
      const agenda = new Agenda(clock);
      const plans = new Map<string, AttemptPlan>();
      /** The oracle: a list. `isDate`: the end is one of the wall clock. */
      let list: { key: string; isStart: boolean; isDate: boolean; end: number; at: number }[] = [];
      const isDue = ({ isDate, end }: (typeof list)[number]): boolean =>
        end <= (isDate ? clock.now() : clock.monotonic());
      for (const [index, { type, ms }] of commands.entries()) {
        const key = `k${index}`;
        const at = clock.now();
        if (type === "pass") clock.pass(ms);
        if (type === "jump") clock.jump(ms);
        if (type === "attempt") {
          const delay = Math.max(0, ms);
          const plan = { key } as AttemptPlan;
          plans.set(key, plan);
          agenda.addDelay(plan, at + delay, at);
          list.push({ key, isStart: true, isDate: false, end: clock.monotonic() + delay, at: at + delay });
        }
        if (type === "duration" || type === "date") {
          const isDate = type === "date";
          const due = isDate ? { at: at + ms } : ({ at: at + ms, isElapsed: true } as const);
          const branch: ParkedBranch = { stepIndex: 0, stepId: key, key, reason: "", kind: "timer", due };
          agenda.addWaits([branch], at);
          list.push({ key, isStart: false, isDate, end: (isDate ? at : clock.monotonic()) + ms, at: at + ms });
        }
        // A branch that no longer waits is forgotten by the next question for the time.
        if (type === "drop" && list.length > 0) list.splice(ms % list.length, 1);
        const next =
          agenda.times(clock.monotonic(), { isWaitingFor: (one) => list.some((other) => other.key === one) }) ?? {};
        // Attempts that may start need no time: they wait for a slot.
        const times = list.filter((one) => !one.isStart || !isDue(one));
        const toFirst = (isDate: boolean): number =>
          Math.min(...times.filter((one) => one.isDate === isDate).map((one) => one.end));
        const { elapsed = Infinity, date = Infinity } = next;
        expect({ elapsed, date }).toEqual({ elapsed: toFirst(false), date: toFirst(true) });
        if (type === "starts") {
          const due = list.filter((one) => one.isStart && isDue(one)).map((one) => one.key);
          const starts = list.filter((one) => one.isStart).map((one) => one.key);
          expect(starts.filter((one) => agenda.mayStart(plans.get(one)!, clock.monotonic()))).toEqual(due);
          list = list.filter((one) => !due.includes(one.key));
          seen.starts += due.length;
        }
        if (type === "waits") {
          const due = list.filter((one) => !one.isStart && isDue(one)).toSorted((one, other) => one.at - other.at);
          expect(agenda.takeWaits().map((one) => one.key)).toEqual(due.map((one) => one.key));
          list = list.filter((one) => !due.includes(one));
          seen.waits += due.length;
          if (due.length > 1) seen.several++;
        }
      }
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});

it("ends stored durations after their time has passed, whatever the wall clock does; those of a former process by the wall clock", () => {
  const begins = fc.record({ type: fc.constantFrom("duration" as const, "date" as const), ms: fc.nat(200) });
  const restarts = fc.record({ type: fc.constant("restart" as const), ms: fc.constant(0) });
  const seen = { early: 0, late: 0, restarted: 0 };
  fc.assert(
    fc.property(fc.array(fc.oneof(begins, begins, passes, passes, jumps, restarts), { maxLength: 30 }), (commands) => {
      const clock = new StillClock();
      let clocks = new WakeClocks(clock, [], () => 0);
      let hasJumped = false;
      /** Stored timers, as the file has them, and what the oracle knows of each. */
      let timers: { clock: number; due: number; end: number; isWall: boolean }[] = [];
      for (const { type, ms } of commands) {
        if (type === "pass") clock.pass(ms);
        if (type === "jump") {
          clock.jump(ms);
          hasJumped = true;
          clocks.toStored(0); // the jump is noticed
        }
        if (type === "duration") {
          const end = clock.monotonic() + ms;
          timers.push({ ...clocks.toStored(end), end, isWall: false });
        }
        if (type === "date") {
          const due = clock.now() + ms;
          timers.push({ clock: 0, due, end: due, isWall: true });
        }
        if (type === "restart") {
          seen.restarted++;
          clocks = new WakeClocks(clock, [...new Set(timers.map((one) => one.clock))], () => 0);
          timers = timers.map((one) => ({ ...one, isWall: true, end: one.due }));
        }
        const used = new Set(timers.map((one) => one.clock));
        for (const one of clocks.all()) if (!used.has(one)) clocks.forget(one);
        expect(clocks.all()).toEqual(expect.arrayContaining([...used]));
        for (const one of timers) {
          const isDue = one.due <= clocks.now(one.clock);
          const left = one.end - (one.isWall ? clock.now() : clock.monotonic());
          // A small difference of the clocks is not a jump: that much a duration may be wrong.
          if (hasJumped && Math.abs(left) <= toleranceMs) continue;
          expect(isDue, `left ${left}`).toBe(left <= 0);
          seen[isDue ? "late" : "early"]++;
        }
      }
    }),
    { numRuns: 1_000 },
  );
  expect(Math.min(...Object.values(seen))).toBeGreaterThan(0);
});

const toleranceMs = 50;
