/** Seed of generated tests, set by `vitest.config.ts`: fixed in `npm test`, new in each run at full size. */
export const seed = Number(process.env["SEED"]);
