// The numbers are those of docs/durability.md, "A step that crashes the process".
import { expect, it } from "vitest";
import { afterCrash, crashed, isAlone, suspectMs, toVerdict } from "../../../src/engine/rules/crashes.ts";

const once = afterCrash(0, "other");
const twice = afterCrash(once, "other");

it("continues after one crash, starts one at a time after two, and suspends after three", () => {
  expect([0, once, twice].map(toVerdict)).toEqual(["continue", "continue", "suspect"]);
  expect(toVerdict(afterCrash(twice, "other"))).toBe("suspect"); // it had not been started
  expect(toVerdict(afterCrash(twice, "beside"))).toBe("suspect");
  expect(toVerdict(afterCrash(twice, "last"))).toBe("suspend");
});

it("runs a suspect alone after a crash beside another suspect, and suspends it after one more", () => {
  const beside = afterCrash(twice, "beside");
  expect([once, twice, beside].map(isAlone)).toEqual([false, false, true]);
  expect(toVerdict(afterCrash(beside, "last"))).toBe("suspend");
  expect(isAlone(afterCrash(beside, "other")), "it was not started").toBe(true);
});

it("starts the next suspect after 30 seconds, and names three crashes as the reason", () => {
  expect([suspectMs, crashed]).toEqual([30_000, "Interrupted 3 times by a crash"]);
});
