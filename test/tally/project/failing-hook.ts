import { beforeAll, describe, it } from "vitest";

describe("a suite with a hook", () => {
  beforeAll(() => {
    throw new Error("the hook threw");
  });
  it("never runs", () => {});
});
