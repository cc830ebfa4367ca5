import { setTimeout as sleep } from "node:timers/promises";
import { ServeError, type ExecutionHandle, type StepContext } from "../../../src/index.ts";

/** The children of each execution of `family`: `tied` has a key, and is cancelled with its parent. */
export const childNames = ["free", "tied"] as const;
export type ChildName = (typeof childNames)[number];

/** The input of a child. */
export interface ChildInput {
  readonly n: number;
  readonly parent: string;
  readonly name: ChildName;
}
/** The number that a child of an execution begins with, which itself was given `n`. */
export const toChildNumber = (n: number, name: ChildName): number => n + 1 + (name === "tied" ? 1_000 : 0);

interface Pace {
  readonly pace: number;
  readonly childPace?: number;
  readonly slowMs: number;
}
interface Passed {
  readonly n: number;
  readonly trail: string[];
}

/** The code of the step `kids`: starts both children, says so in the log, and waits for them. */
export async function raise(
  { data, stepId, runtime, executionId }: StepContext<any, any, any, any>,
  { kid, settings, write }: { kid: { id: string }; settings: Pace; write: (line: string) => void },
): Promise<Passed> {
  const start = async (name: ChildName, options: { key?: string; cancelWith?: "parent" }) => {
    const input: ChildInput = { n: toChildNumber(data.n - 1, name), parent: executionId, name };
    // A plan may make `tied` so slow that it ends only by a cancel.
    const slowMs = name === "free" ? Math.min(settings.slowMs, 300) : settings.slowMs;
    const context = { settings: { ...settings, slowMs, pace: settings.childPace ?? settings.pace } };
    const handle = await runtime.start(kid as never, input as never, { ...options, context });
    write(`child ${executionId} ${name} ${handle.executionId}`);
    return handle as ExecutionHandle<Passed>; // the result of `kid`
  };
  const handles = [await start("free", {}), await start("tied", { key: "tied", cancelWith: "parent" })];
  write(`wait ${executionId}`);
  const results = await Promise.all(handles.map(toResult));
  return {
    n: results.reduce((sum, { n }) => sum + n, data.n),
    trail: [...data.trail, ...results.flatMap(({ trail }) => trail), stepId],
  };
}

/** Returns the result of a child. Resumes the child if crashes have suspended it. */
async function toResult(handle: ExecutionHandle<Passed>): Promise<Passed> {
  for (;;) {
    const outcome = await handle.result();
    if (outcome.status === "completed") return outcome.result;
    if (outcome.status === "error") throw new ServeError(500, `a child ended with ${JSON.stringify(outcome)}`);
    // Its client resumes it as well.
    await handle.resume().catch(() => sleep(20));
  }
}
