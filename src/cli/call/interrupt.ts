import { InterruptError } from "./failure.ts";

/** Runs something that Ctrl+C aborts, with `InterruptError` as the reason. Pressed twice it ends the process. */
export async function interruptible<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => controller.abort(new InterruptError());
  process.once("SIGINT", stop);
  try {
    return await run(controller.signal);
  } finally {
    process.off("SIGINT", stop);
  }
}
