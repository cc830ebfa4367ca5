/** Returns the size for `npm test`, or for `npm run test:full`, which tests at the sizes that are claimed. */
export const bySize = (quick: number, full: number): number => (process.env["TEST_SIZE"] === "full" ? full : quick);

/** Returns one in so many of these, from the first on, for `npm test`, or all of them. For variants of what others test. */
export const oneIn = <T>(step: number, all: readonly T[]): T[] =>
  all.filter((_, index) => index % bySize(step, 1) === 0);
