import { andForEach, andMap, andSleep, andSleepUntil, andThen, andWaitFor, defineWorkflow } from "agentserve";
import { describe, expect, it } from "vitest";
import { serve } from "./serve.ts";

// As a user without TypeScript writes them.
const loose = (options: object): any => options;
const duration = 'expected milliseconds or a duration such as "30m", "12h" or "7d"';
const date = 'expected a Date or an ISO time such as "2030-01-31T12:00:00Z"';
const circular: Record<string, unknown> = {};
circular["self"] = circular;

describe("the definition of a wait", () => {
  it.each([
    ["a negative duration as text", { duration: "-5s" }, `duration: ${duration}, found "-5s"`],
    ["no duration", {}, `duration: ${duration}, found undefined`],
    ["NaN", { duration: Number.NaN }, `duration: ${duration}, found NaN`],
    ["null", { duration: null }, `duration: ${duration}, found null`],
    ["an object", { duration: { days: 2 } }, `duration: ${duration}, found {"days":2}`],
    ["an object that is not JSON", { duration: circular }, `duration: ${duration}, found an object`],
    ["endless sleep", { duration: Infinity }, "duration: expected at most 10 years, found Infinity"],
    ["a text for skippable", { duration: 1, skippable: "yes" }, 'skippable: expected true or false, found "yes"'],
  ])("refuses andSleep with %s", (_, options, message) => {
    expect(() => andSleep(loose({ id: "s", ...options }))).toThrow(`andSleep s: ${message}`);
  });

  it.each([
    ["no date", undefined, "undefined"],
    ["an invalid date", new Date("x"), "Invalid Date"],
    ["words", "tomorrow", '"tomorrow"'],
    ["a duration", "2d", '"2d"'],
    ["a text that only Date.parse understands", "5", '"5"'],
    ["a day of no month", "2030-13-01", '"2030-13-01"'],
    ["milliseconds", 5, "5"],
  ])("refuses andSleepUntil with %s", (_, wrong, found) => {
    expect(() => andSleepUntil(loose({ id: "s", date: wrong }))).toThrow(
      `andSleepUntil s: date: ${date}, found ${found}`,
    );
  });

  it.each(["2030-01-31", "2030-01-31T12:00Z", "2030-01-31T12:00:00.5+02:00", "+012030-01-31"])(
    "accepts the ISO time %s for andSleepUntil",
    (time) => {
      expect(() => andSleepUntil({ id: "s", date: time })).not.toThrow();
    },
  );

  it.each([
    ["no event", { event: undefined }, "event: expected 1 to 128 characters"],
    ["an event with a space", { event: "a b" }, 'found "a b"'],
    ["a key that is a number", { key: 3 }, "key: expected a text of at most 256 characters, found number"],
    ["a long key", { key: "x".repeat(257) }, "key: expected a text of at most 256 characters, found 257 characters"],
    ["a time-out that is a date", { timeout: "2030-01-01" }, `timeout: ${duration}, found "2030-01-01"`],
    ["another since", { since: "ever" }, 'since: expected "start" or "always", found "ever"'],
    ["another from", { from: "Code" }, 'from: expected "anyone" or "code", found "Code"'],
    ["a number for skippable", { skippable: 1 }, "skippable: expected true or false, found 1"],
    ["a schema that is none", { schema: {} }, "schema must be a schema from valibot"],
  ])("refuses andWaitFor with %s", (_, options, message) => {
    const define = () => andWaitFor(loose({ id: "s", event: "go", ...options }));
    expect(define).toThrow(/^andWaitFor s: /);
    expect(define).toThrow(message);
  });

  it("refuses andMap with a list of fields, and with an unknown source", () => {
    expect(() => andMap(loose({ id: "s", map: [] }))).toThrow(
      "andMap s: map: expected an object of fields, found an array",
    );
    expect(() => andMap(loose({ id: "s", map: { a: { source: "step-data" } } }))).toThrow(
      'andMap s: map.a.source: expected value, data, input, step, context, fn, found "step-data"',
    );
  });
});

describe("a wait that runs", () => {
  const ask = (options: unknown) =>
    andThen({ id: "s", execute: ({ suspend }) => suspend("ok?", undefined, options as never) });
  const items = (found: unknown) =>
    andForEach({ id: "s", items: () => found as never, step: andThen({ id: "t", execute: () => 1 }) });
  const sleep = (found: unknown) => andSleep({ id: "s", duration: () => found as never });
  const until = (found: unknown) => andSleepUntil({ id: "s", date: () => found as never });
  it.each([
    [
      "for options of suspend that are a text",
      ask("2d"),
      's: suspend: expected options such as { timeout: "2d" }, found "2d"',
    ],
    [
      "for options of suspend that are null",
      ask(null),
      's: suspend: expected options such as { timeout: "2d" }, found null',
    ],
    ["for a wrong time-out", ask({ timeout: "soon" }), `s: timeout: ${duration}, found "soon"`],
    ["for an invalid date", ask({ timeout: new Date("x") }), "s: timeout: expected a valid Date, found Invalid Date"],
    ["for items that are undefined", items(undefined), "andForEach s: items: expected an array, found undefined"],
    ["for items that are a set", items(new Set([1])), "andForEach s: items: expected an array, found object"],
    ["for an invalid duration", sleep("soon"), `andSleep s: duration: ${duration}, found "soon"`],
    ["for a date that is a number", until(5), `andSleepUntil s: date: ${date}, found 5`],
    [
      "for a key that is a number",
      andWaitFor({ id: "s", event: "go", key: () => 5 as never }),
      "andWaitFor s: key: expected a text of at most 256 characters, found number",
    ],
  ])("fails a step %s", async (_, step, message) => {
    const workflow = defineWorkflow({ id: "w" }).andWhen({ id: "when", condition: () => true, step: step as never });
    const { begin, state, clock, server } = serve({ workflows: [workflow] });
    await begin("w");
    await clock.advance(0);
    expect((await state("w")).status).toBe("error");
    expect(server.logs().map(({ error }) => String(error).split("\n")[0])).toEqual([`TypeError: ${message}`]);
  });
});
