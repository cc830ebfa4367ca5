import { expect, it } from "vitest";
import { toBounded } from "../../../src/engine/runs/journal-row.ts";

const value = '"é"'; // 4 bytes, 3 characters
const executionBytes = 10;
const tooLarge = {
  at: 1,
  error: { message: "The values of the execution take more than 10 bytes (limits.executionBytes)", shown: true },
  isFinal: true,
};

it("keeps a value that takes an execution to limits.executionBytes", () => {
  const result = { at: 1, value };
  expect(toBounded(result, { bytes: 6, executionBytes })).toBe(result);
});

it("replaces a value one byte over limits.executionBytes by a final error, and that of a suspension as well", () => {
  const limit = { bytes: 7, executionBytes };
  expect(toBounded({ at: 1, value }, limit)).toEqual(tooLarge);
  expect(toBounded({ at: 1, suspended: { reason: "x", data: value } }, limit)).toEqual(tooLarge);
});

it("removes the records of a call whose value is too large", () => {
  const result = { at: 1, value, hasRecords: true } as const;
  expect(toBounded(result, { bytes: 7, executionBytes })).toEqual({ ...tooLarge, hasRecords: true });
});

it("keeps results without a value, however large the execution is", () => {
  const limit = { bytes: 11, executionBytes };
  const results = [
    { at: 1, value: undefined },
    { at: 1, error: { message: "x" } },
    { at: 1, suspended: { reason: "x" } },
  ];
  for (const result of results) expect(toBounded(result, limit)).toBe(result);
});
