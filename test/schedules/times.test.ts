import fc from "fast-check";
import { describe, expect, it, onTestFinished, vi } from "vitest";
import { cronTimes, everyTimes, type Times } from "../../src/schedules/times.ts";
import { bySize } from "../harness/size.ts";
import { timesOf } from "./oracle.ts";
import { arbitraryMoment, arbitraryPattern, arbitraryPlace, changes, windowAround } from "./patterns.ts";

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

const at = (time: string): number => Date.parse(`${time}Z`);
const show = (times: Iterable<number>): string[] => Array.from(times, (time) => new Date(time).toISOString());

/** The times after a moment and up to another one, by `next`. */
function walk(times: Times, after: number, until: number): number[] {
  const found: number[] = [];
  for (let time = times.next(after); time !== undefined && time <= until; time = times.next(time)) found.push(time);
  return found;
}

/** Expects these times of a night, of `next`, of `last` and of the oracle. */
function expectTimes(pattern: string, [zone, date]: [string, string], from: string, until: string, times: string[]) {
  const [day] = from.split("T");
  const expected = times.map((time) => `${time.includes("T") ? time : `${day}T${time}`}:00.000Z`);
  const found = cronTimes(pattern, zone, "cron");
  expect(show(walk(found, at(from), at(until)))).toEqual(expected);
  expect(show(found.last(100, at(from), at(until)))).toEqual(expected);
  expect(show(timesOf(pattern, windowAround(zone, date), at(from), at(until)))).toEqual(expected);
}

describe("a cron pattern in Europe/Berlin", () => {
  it.each<[pattern: string, times: string[]]>([
    ["30 2 * * *", ["01:00"]],
    ["0,30 2 * * *", ["01:00"]],
    ["* 2 * * *", ["01:00"]],
    ["0 2,3 * * *", ["01:00"]],
    ["15 2,3 * * *", ["01:00", "01:15"]],
    ["0 */2 * * *", ["2026-03-28T23:00", "01:00", "02:00"]],
    ["30 */1 * * *", ["2026-03-28T23:30", "00:30", "01:00", "01:30", "02:30"]],
    ["*/30 * * * *", ["2026-03-28T23:00", "2026-03-28T23:30", "00:00", "00:30", "01:00", "01:30", "02:00", "02:30"]],
    ["0 * * * *", ["2026-03-28T23:00", "00:00", "01:00", "02:00"]],
    ["59 1 * * *", ["00:59"]],
    ["0 3 * * *", ["01:00"]],
  ])("has the times of %s when the hour from 2:00 to 3:00 is skipped", (pattern, times) => {
    const dated = times.map((time) => (time.includes("T") ? time : `2026-03-29T${time}`));
    expectTimes(pattern, ["Europe/Berlin", "2026-03-29"], "2026-03-28T22:30", "2026-03-29T02:30", dated);
  });

  it.each<[pattern: string, times: string[]]>([
    ["30 2 * * *", ["00:30"]],
    ["0,30 2 * * *", ["00:00", "00:30"]],
    ["15 2,3 * * *", ["00:15", "02:15"]],
    ["0 */2 * * *", ["2026-10-24T22:00", "00:00"]],
    ["30 */1 * * *", ["2026-10-24T22:30", "2026-10-24T23:30", "00:30", "02:30"]],
    [
      "*/30 * * * *",
      ["2026-10-24T22:00", "2026-10-24T22:30", "2026-10-24T23:00", "2026-10-24T23:30"].concat([
        "00:00",
        "00:30",
        "01:00",
        "01:30",
        "02:00",
        "02:30",
      ]),
    ],
    ["0 * * * *", ["2026-10-24T22:00", "2026-10-24T23:00", "00:00", "01:00", "02:00"]],
    ["59 1 * * *", ["2026-10-24T23:59"]],
    ["0 3 * * *", ["02:00"]],
  ])("has the times of %s when the hour from 2:00 to 3:00 occurs twice", (pattern, times) => {
    const dated = times.map((time) => (time.includes("T") ? time : `2026-10-25T${time}`));
    expectTimes(pattern, ["Europe/Berlin", "2026-10-25"], "2026-10-24T21:30", "2026-10-25T02:30", dated);
  });
});

it.each<[zone: string, date: string, pattern: string, from: string, until: string, times: string[]]>([
  ["America/New_York", "2026-03-08", "30 2 * * *", "2026-03-08T00:00", "2026-03-08T23:00", ["07:00"]],
  ["America/New_York", "2026-11-01", "30 1 * * *", "2026-11-01T00:00", "2026-11-01T23:00", ["05:30"]],
  ["America/New_York", "2026-11-01", "30 * * * *", "2026-11-01T05:00", "2026-11-01T07:00", ["05:30", "06:30"]],
  ["Australia/Lord_Howe", "2026-04-04", "45 1 * * *", "2026-04-04T00:00", "2026-04-04T23:00", ["14:45"]],
  [
    "Australia/Lord_Howe",
    "2026-04-04",
    "45 * * * *",
    "2026-04-04T14:00",
    "2026-04-04T16:30",
    ["14:45", "15:15", "16:15"],
  ],
  ["Australia/Lord_Howe", "2026-10-03", "15 2 * * *", "2026-10-03T00:00", "2026-10-03T23:00", ["15:30"]],
  ["Australia/Lord_Howe", "2026-10-03", "15 * * * *", "2026-10-03T14:30", "2026-10-03T16:30", ["14:45", "16:15"]],
  ["America/Sao_Paulo", "2018-11-04", "0 0 * * *", "2018-11-04T00:00", "2018-11-04T23:00", ["03:00"]],
  ["America/Sao_Paulo", "2018-11-04", "30 0 4 11 *", "2018-11-04T00:00", "2018-11-04T23:00", ["03:00"]],
  ["America/Sao_Paulo", "2018-02-18", "30 23 * * *", "2018-02-18T00:00", "2018-02-18T23:00", ["01:30"]],
  ["America/Sao_Paulo", "2018-02-18", "0 0 18 2 *", "2018-02-18T00:00", "2018-02-18T23:00", ["03:00"]],
  ["Pacific/Apia", "2011-12-30", "0 12 30 12 *", "2011-12-29T00:00", "2011-12-31T12:00", ["2011-12-30T10:00"]],
  ["America/New_York", "2026-02-28", "0 0 1,30 * *", "2026-02-27T00:00", "2026-03-02T12:00", ["2026-03-01T05:00"]],
  ["America/New_York", "2026-02-28", "0 * 1,31 * *", "2026-02-27T00:00", "2026-03-01T05:30", ["2026-03-01T05:00"]],
  ["Asia/Kolkata", "2028-02-29", "30 5 29 2 *", "2028-02-28T12:00", "2028-02-29T12:00", ["2028-02-29T00:00"]],
  ["UTC", "2026-12-31", "0 0 * * 7", "2026-12-30T00:00", "2027-01-02T23:59", []],
  ["UTC", "2026-12-31", "0 0 1 * 4", "2026-12-30T00:00", "2027-01-02T23:59", ["2026-12-31T00:00", "2027-01-01T00:00"]],
])("has the times in %s around %s of %s", (zone, date, pattern, from, until, times) => {
  expectTimes(pattern, [zone, date], from, until, times);
});

it("takes Sunday as 0 and as 7 in a cron pattern", () => {
  const [zero, seven] = ["0 9 * * 0", "0 9 * * 7"].map((pattern) => cronTimes(pattern, "UTC", "cron"));
  const sundays = ["2026-05-03T09:00:00.000Z", "2026-05-10T09:00:00.000Z"];
  expect(show(walk(zero!, at("2026-05-01T00:00"), at("2026-05-14T00:00")))).toEqual(sundays);
  expect(show(walk(seven!, at("2026-05-01T00:00"), at("2026-05-14T00:00")))).toEqual(sundays);
});

it("has equal keys for equal schedule times only", () => {
  const keys = [
    cronTimes("0 3 * * *", "UTC", "cron"),
    cronTimes("0 3 * * *", "Europe/Berlin", "cron"),
    cronTimes("0 4 * * *", "UTC", "cron"),
    everyTimes("1h", "every"),
    everyTimes("2h", "every"),
  ].map(({ key }) => key);
  expect(new Set(keys).size).toBe(keys.length);
  expect(cronTimes("0 3 * * *", "UTC", "another").key).toBe(keys[0]);
  expect(everyTimes("60m", "every").key).toBe(everyTimes(hourMs, "every").key);
});

describe("for any pattern, time zone and moment", () => {
  const numRuns = bySize(120, 2_000);
  const cases = arbitraryPlace.chain((place) => {
    const window = windowAround(...place);
    const moment = arbitraryMoment(window);
    return fc.record({
      place: fc.constant(place),
      pattern: arbitraryPattern(window),
      moments: fc
        .tuple(moment, moment)
        .map(([one, other]): [number, number] => [Math.min(one, other), Math.max(one, other)]),
      most: fc.integer({ min: 1, max: 40 }),
    });
  });

  /** The times of a pattern. Undefined if it is never due, such as on 31 April. */
  function toTimes(pattern: string, zone: string): Times | undefined {
    try {
      return cronTimes(pattern, zone, "cron");
    } catch (error) {
      expect((error as Error).message).toBe(`cron: ${JSON.stringify(pattern)} is never due`);
      return undefined;
    }
  }

  it("generates windows with changes of clocks", () => {
    for (const [zone, date] of changes) {
      const { minutes } = windowAround(zone, date);
      const changed = minutes.filter(({ isRepeated, skipped }) => isRepeated || skipped.length > 0);
      expect([zone, changed.length > 0]).toEqual([zone, true]);
    }
  });

  it("finds by `next` the first time after any moment, for any pattern and zone", () => {
    const seen = { found: 0, none: 0, neverDue: 0 };
    fc.assert(
      fc.property(cases, ({ place, pattern, moments: [after] }) => {
        const window = windowAround(...place);
        const times = toTimes(pattern, window.zone);
        const oracle = timesOf(pattern, window, after);
        let time = after;
        for (let count = 0; count < 12; count++) {
          const { value: expected } = oracle.next() as { value: number | undefined };
          const found = times?.next(time);
          if (expected === undefined) {
            expect(found ?? Infinity).toBeGreaterThanOrEqual(window.end);
            seen[times ? "none" : "neverDue"]++;
            break;
          }
          expect(show([found!])).toEqual(show([expected]));
          expect(expected).toBeGreaterThan(time);
          time = expected;
          seen.found++;
        }
      }),
      { numRuns },
    );
    expect(seen.found).toBeGreaterThan(numRuns);
    expect(seen.none).toBeGreaterThan(0);
  });

  it("finds by `last` the last times between any two moments, for any pattern and zone", () => {
    const seen = { whole: 0, cut: 0, none: 0 };
    fc.assert(
      fc.property(cases, ({ place, pattern, moments: [since, until], most }) => {
        const window = windowAround(...place);
        const all = [...timesOf(pattern, window, since, until)];
        const found = toTimes(pattern, window.zone)?.last(most, since, until) ?? [];
        expect(show(found)).toEqual(show(all.slice(-most)));
        seen[all.length === 0 ? "none" : all.length > most ? "cut" : "whole"]++;
      }),
      { numRuns },
    );
    expect(Math.min(seen.whole, seen.cut, seen.none)).toBeGreaterThan(numRuns / 50);
  });
});

describe("every", () => {
  it("ticks an interval at each of its multiples since 1970", () => {
    const times = everyTimes("15m", "every");
    expect(show(walk(times, at("2026-03-29T00:50"), at("2026-03-29T01:30")))).toEqual([
      "2026-03-29T01:00:00.000Z",
      "2026-03-29T01:15:00.000Z",
      "2026-03-29T01:30:00.000Z",
    ]);
    expect(everyTimes("7s", "every").next(0)).toBe(7_000);
  });

  it("finds the same times of an interval by `next` and by `last`", () => {
    const interval = fc.oneof(fc.integer({ min: 1_000, max: 90_000 }), fc.integer({ min: 1_000, max: 40 * dayMs }));
    const record = { ms: interval, until: fc.nat(2 ** 41), count: fc.nat(30), rest: fc.nat(), most: fc.nat(40) };
    fc.assert(
      fc.property(fc.record(record), ({ ms, until, count, rest, most }) => {
        const times = everyTimes(ms, "every");
        const since = until - count * ms - (rest % ms);
        const all = walk(times, since, until);
        expect(all.every((time) => time % ms === 0)).toBe(true);
        expect(all.length).toBeGreaterThanOrEqual(count);
        expect(all.length).toBeLessThanOrEqual(count + 1);
        expect(times.last(most, since, until)).toEqual(most === 0 ? [] : all.slice(-most));
      }),
      { numRuns: bySize(120, 2_000) },
    );
  });

  it("returns at most as many times of an interval as are asked for", () => {
    const times = everyTimes(1_000, "every").last(100, 0, at("2026-03-29T01:00"));
    expect([times.length, times.at(-1)]).toEqual([100, at("2026-03-29T01:00")]);
  });
});

describe("the work", () => {
  /** The number of times that a wall clock is looked at. */
  function countLooks(work: () => unknown): number {
    const spy = vi.spyOn(Intl.DateTimeFormat.prototype, "formatToParts");
    onTestFinished(() => spy.mockRestore());
    work();
    const count = spy.mock.calls.length;
    spy.mockRestore();
    return count;
  }

  it.each(["* * * * * *", "* * 0-23 * * *"])(
    "does work for `last` that does not grow with the window: %s",
    (pattern) => {
      const until = at("2026-06-15T12:00");
      const times = cronTimes(pattern, "Europe/Berlin", "cron");
      expect(times.last(100, until - 30 * dayMs, until)).toHaveLength(100);
      const month = countLooks(() => times.last(100, until - 30 * dayMs, until));
      const hour = countLooks(() => times.last(100, until - hourMs, until));
      expect(month).toBe(hour);
      // Most calls ask for the ticks since the last one.
      const few = countLooks(() => expect(times.last(100, until - 1_000, until)).toEqual([until]));
      expect(few * 20).toBeLessThan(hour);
    },
  );

  it("does work that does not grow with times that are skipped or occur twice", () => {
    const times = cronTimes("* * 2 * * *", "Europe/Berlin", "cron");
    const [forward, back] = [at("2026-03-29T01:00"), at("2026-10-25T01:00")];
    expect(show([times.next(back)!])).toEqual(["2026-10-26T01:00:00.000Z"]);
    expect(countLooks(() => times.next(back))).toBeLessThan(100);
    expect(countLooks(() => times.next(back + hourMs / 2))).toBeLessThan(100);
    expect(times.last(1, 0, forward)).toEqual([forward]);
    expect(countLooks(() => times.last(1, 0, forward))).toBeLessThan(200);
    expect(times.last(1, 0, back + hourMs / 2)).toEqual([back - 1_000]);
    expect(countLooks(() => times.last(1, 0, back + hourMs / 2))).toBeLessThan(200);
  });
});
