import { ServeError } from "../../../src/core/error.ts";
import { patienceMs } from "../../harness/patience.ts";

/** Checks again when it was refused: starting a process may take longer than a check waits for it. */
export async function untilServed<T>(check: () => Promise<T>): Promise<T> {
  const deadline = performance.now() + patienceMs;
  for (;;) {
    try {
      return await check();
    } catch (error) {
      if (!(error instanceof ServeError) || error.status !== 503 || performance.now() > deadline) throw error;
    }
  }
}
