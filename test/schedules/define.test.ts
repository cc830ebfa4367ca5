import { describe, expect, it } from "vitest";
import { defineSchedule, defineWorkflow } from "agentserve";

const workflow = defineWorkflow({ id: "report" });
const fine = { id: "nightly", workflow, cron: "0 3 * * *" };
/** Options that TypeScript refuses. */
const define = (options: unknown) => defineSchedule(options as typeof fine);

describe("defineSchedule refuses, with a message that names the schedule and what is wrong", () => {
  it.each<[title: string, options: unknown, message: string]>([
    ["no object", "nightly", `defineSchedule(): expected an object, found "nightly"`],
    [
      "a value out of range",
      { ...fine, cron: "61 * * * *" },
      `Schedule nightly: cron: "61 * * * *" is not a cron pattern: Invalid value for minute: 61`,
    ],
    [
      "an unknown day",
      { ...fine, cron: "0 0 * * FUNDAY" },
      `Schedule nightly: cron: "0 0 * * FUNDAY" is not a cron pattern: `,
    ],
    [
      "four fields",
      { ...fine, cron: "* * * *" },
      `Schedule nightly: cron: "* * * *" is not a cron pattern: expected five`,
    ],
    [
      "seven fields",
      { ...fine, cron: "0 0 3 * * * 2030" },
      `Schedule nightly: cron: "0 0 3 * * * 2030" is not a cron pattern: expected five`,
    ],
    ["an empty pattern", { ...fine, cron: "" }, `Schedule nightly: cron: "" is not a cron pattern: expected five`],
    [
      "a date",
      { ...fine, cron: "2030-01-31T12:00:00" },
      `Schedule nightly: cron: "2030-01-31T12:00:00" is not a cron pattern: expected five`,
    ],
    ["30 February", { ...fine, cron: "0 0 30 2 *" }, `Schedule nightly: cron: "0 0 30 2 *" is never due`],
    [
      "a pattern that is none",
      { ...fine, cron: 5 },
      `Schedule nightly: cron: expected a pattern such as "0 3 * * *", found 5`,
    ],
    [
      "an unknown time zone",
      { ...fine, timezone: "Europe/Berln" },
      `Schedule nightly: timezone: expected a time zone such as "Europe/Berlin", found "Europe/Berln"`,
    ],
    [
      "an interval that is too short",
      { id: "a", workflow, every: 999 },
      "Schedule a: every: expected at least 1 second, found 999",
    ],
    [
      "a text that is no interval",
      { id: "a", workflow, every: "soon" },
      "Schedule a: every: expected milliseconds or ",
    ],
    ["no number", { id: "a", workflow, every: Number.NaN }, "Schedule a: every: expected milliseconds or "],
    ["an endless interval", { id: "a", workflow, every: Infinity }, "Schedule a: every: expected at most 10 years"],
    ["both cron and every", { ...fine, every: "1h" }, "Schedule nightly: cron: expected either cron or every"],
    ["neither of them", { id: "a", workflow }, "Schedule a: cron: expected either cron or every"],
    [
      "an id that is too long",
      { ...fine, id: "x".repeat(81) },
      "defineSchedule({ id }): expected 1 to 80 characters (A-Z a-z 0-9 . _ -), starting with a letter or digit, found",
    ],
    [
      "a time zone of an interval",
      { id: "s", workflow, every: "1h", timezone: "UTC" },
      "Schedule s: timezone: every counts in UTC",
    ],
    ["a user that is not JSON", { ...fine, user: { id: "u", n: 1n } }, "user: expected plain JSON, found"],
    ["an id with a colon", { ...fine, id: "each:night" }, `defineSchedule({ id }): expected 1 to 80 characters`],
    ["an id with a space", { ...fine, id: "each night" }, `defineSchedule({ id }): expected 1 to 80 characters`],
    ["no id", { workflow, cron: "0 3 * * *" }, "defineSchedule({ id }): expected 1 to 80 characters"],
    ["an unknown option", { ...fine, timeZone: "UTC" }, "Schedule nightly: timeZone: unknown option"],
    [
      "a wrong overlap",
      { ...fine, overlap: "wait" },
      `Schedule nightly: overlap: expected "skip", "allow" or "queue", found "wait"`,
    ],
    [
      "a user without an id",
      { ...fine, user: { name: "Ada" } },
      "Schedule nightly: user: expected a user with an id, found",
    ],
    ["a wrong catchUp", { ...fine, catchUp: true }, "Schedule nightly: catchUp: expected milliseconds or "],
    [
      "no workflow",
      { id: "a", cron: "0 3 * * *" },
      "Schedule a: workflow: expected a workflow or its id, found undefined",
    ],
  ])("%s", (_, options, message) => {
    expect(() => define(options)).toThrow(message);
  });

  it("but takes the longest id, the shortest interval, six fields and 29 February", () => {
    expect(define({ ...fine, id: "x".repeat(80) }).id).toHaveLength(80);
    expect(define({ id: "a", workflow, every: "1s" }).times.next(0)).toBe(1_000);
    expect(define({ ...fine, cron: "30 0 3 * * *" }).times.next(0)).toBe(3 * 3_600_000 + 30_000);
    const leap = define({ ...fine, cron: "0 0 29 2 *" }).times.next(Date.UTC(2026, 0, 1));
    expect(leap).toBe(Date.UTC(2028, 1, 29));
  });

  it("and has defaults for the rest: UTC, a user of its own, no overlap, nothing made up", () => {
    expect(define(fine)).toMatchObject({
      workflowId: "report",
      timezone: "UTC",
      caller: { user: { id: "schedule:nightly" }, userId: "schedule:nightly" },
      overlap: "skip",
      catchUpMs: 0,
    });
    expect(define({ ...fine, workflow: "other" }).workflowId).toBe("other");
    expect(define(fine).toInput({ at: new Date(0) })).toEqual({});
  });
});
