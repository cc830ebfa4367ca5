import { expect, it } from "vitest";
import { ByteBudget } from "../../src/core/byte-budget.ts";

it("returns the bytes of a body that is still read when its client has left", () => {
  const budget = new ByteBudget(1_000_000);
  let hasEnded = false;
  let end = (): void => {};
  const left = budget.createReservation((release) => {
    if (hasEnded) release();
    else end = release;
  });
  left.raise(20_000);
  hasEnded = true;
  end();
  left.raise(150_000);
  const others = [1, 2].map(() => budget.createReservation(() => {}));
  for (const other of others) expect(() => other.raise(90_000)).not.toThrow();
});
