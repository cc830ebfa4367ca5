import { expect, it } from "vitest";
import { isLineFull, lineFull } from "../../../src/engine/rules/turn-line.ts";

it("lets 32 turns wait for the one that runs, and answers the next one with 503 and Retry-After", () => {
  const running = 1;
  expect([0, running, running + 31].map(isLineFull)).toEqual([false, false, false]);
  expect([running + 32, running + 33].map(isLineFull)).toEqual([true, true]);
  expect(lineFull()).toMatchObject({ status: 503, headers: [["retry-after", expect.stringMatching(/^\d+$/)]] });
});
