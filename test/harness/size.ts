/** `npm test`, or `npm run test:full`, where sizes are what the claims say. */
export const bySize = (quick: number, full: number): number => (process.env["TEST_SIZE"] === "full" ? full : quick);
