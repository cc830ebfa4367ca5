/** Called by Vitest before the first test; what it returns, after the last one. */
export const setup = () => (): void => {
  throw new Error("the teardown threw");
};
