import fc from "fast-check";
import { expect, it } from "vitest";
import { isDeeper, isTextDeeper } from "../../src/core/json.ts";
import { cpuMs } from "../harness/cpu.ts";

it("finds the depth of a text as a walk of its value does", () => {
  const quoted = fc.constantFrom("[[[[", '"]', '\\"[{', "\\", '{"a":[', "plain");
  const value = fc.jsonValue({ maxDepth: 6, stringUnit: fc.oneof(quoted, fc.string()) as never });
  fc.assert(
    fc.property(value, fc.integer({ min: 0, max: 7 }), fc.constantFrom(undefined, 2), (json, depth, space) => {
      expect(isTextDeeper(JSON.stringify(json, undefined, space), depth)).toBe(isDeeper(json, depth));
    }),
    { numRuns: 2_000 },
  );
});

it("finds the depth of a text in less time than to parse it, however many keys it has", () => {
  const text = `{${Array.from({ length: 130_000 }, (_, n) => `"key${n}":{}`).join()}}`;
  const least = (work: () => void) => Math.min(...Array.from({ length: 5 }, () => cpuMs(work)));
  expect(least(() => isTextDeeper(text, 100)) / least(() => JSON.parse(text))).toBeLessThan(0.5);
});
