import { it } from "vitest";

it("ends its worker", async () => {
  process.kill(process.pid, "SIGKILL");
  await new Promise(() => {});
});
