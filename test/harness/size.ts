/** Returns the size for `npm test`, or for `npm run test:full`, which tests at the sizes that are claimed. */
export const bySize = (quick: number, full: number): number => (process.env["TEST_SIZE"] === "full" ? full : quick);
