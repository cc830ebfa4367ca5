import { Interrupted } from "./failure.ts";

/** Runs something that Ctrl+C aborts, with `Interrupted` as the reason. Pressed twice it ends the process. */
export async function interruptible<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const stop = (): void => controller.abort(new Interrupted());
  process.once("SIGINT", stop);
  try {
    return await run(controller.signal);
  } finally {
    process.off("SIGINT", stop);
  }
}
