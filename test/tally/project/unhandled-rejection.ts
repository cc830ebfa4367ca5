import { it } from "vitest";

it("leaves a rejection behind", async () => {
  void Promise.reject(new Error("nobody awaited this"));
  await new Promise((resolve) => setTimeout(resolve));
});
