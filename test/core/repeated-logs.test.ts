import { expect, it } from "vitest";
import { toLogger, withoutRepeats } from "../../src/core/log.ts";

it("a repeated message is logged once in 10 s, with the number of those between", () => {
  let now = 0;
  const seen: unknown[] = [];
  const logger = withoutRepeats(
    toLogger((...record) => void seen.push(record)),
    () => now,
  );
  for (; now < 20_000; now += 1_000) logger.warn("The connection was cut", { at: now });
  logger.error("The connection was cut");
  expect(seen).toEqual([
    ["warn", "The connection was cut", { at: 0 }],
    ["warn", "The connection was cut", { at: 10_000, repeated: 9 }],
    ["error", "The connection was cut", undefined],
  ]);
});

it("a logger without repeats forgets the oldest of more than 100 messages", () => {
  const seen: string[] = [];
  const logger = withoutRepeats(
    toLogger((_, message) => void seen.push(message)),
    () => 0,
  );
  for (const message of ["first", ...Array.from({ length: 100 }, (_, index) => `${index}`), "first", "99"])
    logger.warn(message);
  expect(seen).toHaveLength(102);
});
