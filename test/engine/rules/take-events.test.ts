import { expect, it } from "vitest";
import type { EventFilter } from "../../../src/engine/execution.ts";
import { mayTake } from "../../../src/engine/rules/take-events.ts";

it.each<
  [string, boolean, { userId?: string; isFromCode?: true; isOlder?: true }, Partial<EventFilter>, string | undefined]
>([
  ["an event for everyone", true, {}, {}, undefined],
  ["an event for its own user", true, { userId: "ada" }, {}, "ada"],
  ["no event for another user", false, { userId: "ada" }, {}, "bob"],
  ["no event for a user, if it has none itself", false, { userId: "ada" }, {}, undefined],
  ["no event that is older", false, { isOlder: true }, {}, undefined],
  ["an older event, if any age counts", true, { isOlder: true }, { isAnyAge: true }, undefined],
  [
    "no older event for another user, if any age counts",
    false,
    { isOlder: true, userId: "ada" },
    { isAnyAge: true },
    "bob",
  ],
  ["no event of a caller, if only those of code count", false, {}, { isFromCode: true }, undefined],
  ["an event of code", true, { isFromCode: true }, { isFromCode: true }, undefined],
])("lets an execution take %s", (_, expected, head, filter, userId) => {
  const event = { isFromCode: false, isOlder: false, ...head };
  expect(mayTake({ step: "s", name: "n", ...filter }, event, { userId })).toBe(expected);
});
