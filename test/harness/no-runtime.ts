/** For programs whose steps start nothing. */
export const noRuntime = (): never => {
  throw new Error("the steps of this test have no runtime");
};
