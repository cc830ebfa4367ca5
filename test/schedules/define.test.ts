import { describe, expect, it } from "vitest";
import { defineSchedule, defineWorkflow } from "agentserve";

const workflow = defineWorkflow({ id: "report" });
const fine = { id: "nightly", workflow, cron: "0 3 * * *" };
/** Options that TypeScript refuses. */
const define = (options: unknown) => defineSchedule(options as typeof fine);

describe("defineSchedule", () => {
  const every = (value: unknown) => ({ cron: undefined, every: value });
  it.each<[title: string, options: object, message: string]>([
    ["61 minutes", { cron: "61 * * * *" }, `cron: "61 * * * *" is not a cron pattern: Invalid value for minute: 61`],
    ["an unknown day", { cron: "0 0 * * FUNDAY" }, `cron: "0 0 * * FUNDAY" is not a cron pattern: `],
    ["four fields", { cron: "* * * *" }, `cron: "* * * *" is not a cron pattern: expected five`],
    ["seven fields", { cron: "0 0 3 * * * 2030" }, `cron: "0 0 3 * * * 2030" is not a cron pattern: expected five`],
    ["an empty pattern", { cron: "" }, `cron: "" is not a cron pattern: expected five`],
    ["a date", { cron: "2030-01-31T12:00:00" }, `cron: "2030-01-31T12:00:00" is not a cron pattern: expected five`],
    ["30 February", { cron: "0 0 30 2 *" }, `cron: "0 0 30 2 *" is never due`],
    ["a number as cron", { cron: 5 }, `cron: expected a pattern such as "0 3 * * *", found 5`],
    ["an unknown zone", { timezone: "Berln" }, `timezone: expected a time zone such as "Europe/Berlin", found "Berln"`],
    ["a too short interval", every(999), "every: expected at least 1 second, found 999"],
    ["a text that is no interval", every("soon"), "every: expected milliseconds or "],
    ["an interval of NaN", every(Number.NaN), "every: expected milliseconds or "],
    ["an endless interval", every(Infinity), "every: expected at most 10 years"],
    ["both cron and every", { every: "1h" }, "cron: expected either cron or every"],
    ["neither cron nor every", { cron: undefined }, "cron: expected either cron or every"],
    ["a time zone of an interval", { ...every("1h"), timezone: "UTC" }, "timezone: every counts in UTC"],
    ["a user that is not JSON", { user: { id: "u", n: 1n } }, "user: expected plain JSON, found"],
    ["a user without an id", { user: { name: "Ada" } }, "user: expected a user with an id, found"],
    ["an unknown option", { timeZone: "UTC" }, "timeZone: unknown option"],
    ["a wrong overlap", { overlap: "wait" }, `overlap: expected "skip", "allow" or "queue", found "wait"`],
    ["a wrong catchUp", { catchUp: true }, "catchUp: expected milliseconds or "],
    ["no workflow", { workflow: undefined }, "workflow: expected a workflow or its id, found undefined"],
  ])("refuses a schedule with %s, and names the schedule and the option", (_, options, message) => {
    expect(() => define({ ...fine, ...options })).toThrow(`Schedule nightly: ${message}`);
  });

  it.each(["x".repeat(81), "each:night", "each night", undefined])("refuses a schedule with the id %s", (id) => {
    expect(() => define({ ...fine, id })).toThrow(
      "defineSchedule({ id }): expected 1 to 80 characters (A-Z a-z 0-9 . _ -), starting with a letter or digit, found",
    );
    expect(() => define(id)).toThrow("defineSchedule(): expected an object, found");
  });

  it("takes the longest id, the shortest interval, six fields and 29 February", () => {
    expect(define({ ...fine, id: "x".repeat(80) }).id).toHaveLength(80);
    expect(define({ id: "a", workflow, every: "1s" }).times.next(0)).toBe(1_000);
    expect(define({ ...fine, cron: "30 0 3 * * *" }).times.next(0)).toBe(3 * 3_600_000 + 30_000);
    const leap = define({ ...fine, cron: "0 0 29 2 *" }).times.next(Date.UTC(2026, 0, 1));
    expect(leap).toBe(Date.UTC(2028, 1, 29));
  });

  it("defaults a schedule to UTC, its own user, no overlap and no catch-up", () => {
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
