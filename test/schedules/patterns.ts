import fc from "fast-check";
import { createWindow, type Window } from "./oracle.ts";

const dayMs = 86_400_000;

/** Days around changes of clocks: of an hour, of half an hour, of two hours, of a day; at night, at midnight, in the evening. */
export const changes: readonly [zone: string, date: string][] = [
  ["Europe/Berlin", "2026-03-29"],
  ["Europe/Berlin", "2026-10-25"],
  ["America/New_York", "2026-03-08"],
  ["America/New_York", "2026-11-01"],
  ["Australia/Lord_Howe", "2026-04-04"],
  ["Australia/Lord_Howe", "2026-10-03"],
  ["America/Sao_Paulo", "2018-02-18"],
  ["America/Sao_Paulo", "2018-11-04"],
  ["Europe/Dublin", "2026-10-25"],
  ["America/Havana", "2026-03-08"],
  ["America/Havana", "2026-11-01"],
  ["Africa/Cairo", "2025-10-30"],
  ["Antarctica/Troll", "2026-03-29"],
  ["Antarctica/Troll", "2026-10-25"],
  ["Pacific/Chatham", "2026-04-04"],
  ["Pacific/Apia", "2011-12-30"],
];
const others: readonly [zone: string, date: string][] = [
  ["UTC", "2026-12-31"],
  ["Asia/Kolkata", "2028-02-29"],
  ["Europe/Berlin", "2026-06-30"],
  ["America/New_York", "2026-02-28"],
];

const windows = new Map<string, Window>();
/** Five days in a time zone, from two days before a date on. */
export function windowAround(zone: string, date: string): Window {
  const key = `${zone} ${date}`;
  const window = windows.get(key) ?? createWindow(zone, Date.parse(date) - 2 * dayMs, 5);
  windows.set(key, window);
  return window;
}

/** A time zone and a date, more often one on which clocks are changed. */
export const arbitraryPlace: fc.Arbitrary<[zone: string, date: string]> = fc.constantFrom(
  ...changes,
  ...changes,
  ...others,
);

/** A moment of a window, more often one near the change. */
export const arbitraryMoment = ({ start, end, change }: Window): fc.Arbitrary<number> => {
  const near = fc.constantFrom(0.5, 3).chain((hours) => {
    const ms = hours * 3_600_000;
    return fc.integer({ min: change - ms, max: change + ms });
  });
  const atHour = fc.integer({ min: -4, max: 4 }).map((half) => change + half * 1_800_000);
  const justBefore = atHour.map((time) => time - 1);
  return fc.oneof(near, near, atHour, justBefore, fc.integer({ min: start + dayMs, max: end - dayMs }));
};

/** A pattern of five fields or six, whose hours and days are often those of the change. */
export function arbitraryPattern({ change, zone }: Window): fc.Arbitrary<string> {
  const shown = new Intl.DateTimeFormat("en-GB", { timeZone: zone, dateStyle: "short", timeStyle: "short" });
  const [day = 1, month = 1, , hour = 0] = shown.format(change).match(/\d+/g)!.map(Number);
  const hours = [-2, -1, 0, 1].map((difference) => (hour + difference + 24) % 24);
  const minutes = field(0, 59, [0, 15, 30, 45, 59]);
  return fc
    .record({
      second: fc.oneof(
        { weight: 3, arbitrary: fc.constant("") },
        field(0, 59, [0, 30, 59]).map((text) => `${text} `),
      ),
      minute: minutes,
      hour: fc.oneof(field(0, 23, hours), fc.constantFrom("*", ...hours.map(String))),
      day: fc.oneof({ weight: 3, arbitrary: fc.constant("*") }, field(1, 31, [day])),
      month: fc.oneof({ weight: 5, arbitrary: fc.constant("*") }, field(1, 12, [month])),
      weekday: fc.oneof({ weight: 3, arbitrary: fc.constant("*") }, weekdays),
    })
    .map(({ second, ...five }) => second + Object.values(five).join(" "));
}

/** A field: a list of numbers, ranges and steps, or `*`. Some values are more frequent. */
function field(least: number, most: number, frequent: number[]): fc.Arbitrary<string> {
  const value = fc.oneof(fc.constantFrom(...frequent), fc.integer({ min: least, max: most }));
  const step = fc.integer({ min: 1, max: most - least });
  const range = fc.tuple(value, value).map(([one, other]) => `${Math.min(one, other)}-${Math.max(one, other)}`);
  const stepped = fc.tuple(fc.oneof(range, fc.constant("*")), step).map(([base, by]) => `${base}/${by}`);
  const part = fc.oneof(value.map(String), value.map(String), range, stepped);
  return fc.oneof(
    fc.constant("*"),
    fc.array(part, { minLength: 1, maxLength: 3 }).map((parts) => parts.join(",")),
  );
}

/** Sunday is 0 and 7. */
const weekdays = fc.oneof(field(0, 6, [0]), fc.constantFrom("7", "0,7", "5-7", "6-7", "1-7/2", "3,7"));
