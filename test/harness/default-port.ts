import { createServer } from "node:net";
import { expect, onTestFinished } from "vitest";

/** Takes the default port until the end of the test. Another test may have it: then this waits. */
export async function holdDefaultPort(): Promise<void> {
  const server = createServer();
  onTestFinished(() => void server.close());
  const isTaken = (): Promise<boolean> =>
    new Promise((resolve) => {
      server.once("error", () => resolve(false));
      server.listen(3141, "127.0.0.1", () => resolve(true));
    });
  await expect.poll(isTaken).toBe(true);
}
