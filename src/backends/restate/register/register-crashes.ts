import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Crashes, CrashInput, RegisterStatus } from "./register-state.ts";
import { afterCrash, maxCrashes } from "../../../engine/rules/crashes.ts";

/** Resolves to the number of crashes. */
type CountCrashes = (context: ObjectContext, input: CrashInput) => Promise<number>;

export type CrashHandler = "interrupted" | "isolated" | "beside" | "released" | "absent" | "present";

/** The handlers that count the crashes of an execution without a new row between them. */
export const crashHandlers: Record<CrashHandler, CountCrashes> = {
  /** The drive runs again after an interruption. Resolves to the number of crashes. */
  interrupted: (context, input) =>
    change(context, input, ({ count, isIsolated, isBeside, isAbsent }) => {
      if (isAbsent) return { count, isIsolated: false }; // none of its code has run
      // Beside others, it is not known which of them ended the process.
      const next = afterCrash(count, isIsolated ? "last" : isBeside ? "beside" : "other");
      return { count: next, isIsolated: false };
    }),

  /** The code of a suspect is about to run. Its replica has started no other suspect since. */
  isolated: (context, input) => change(context, input, ({ count }) => ({ count, isIsolated: true })),

  /** The replica is about to start another suspect beside this one. */
  beside: (context, input) =>
    change(context, input, ({ count, isAbsent }) => {
      return { count, isIsolated: false, isBeside: count >= maxCrashes ? true : undefined, isAbsent };
    }),

  /** A living process was cut off from the drive: the next interruption is not a crash. */
  released: (context, input) =>
    change(context, input, ({ count }) => {
      return { count: count > maxCrashes ? count : Math.max(count - 1, -1), isIsolated: false };
    }),

  /** All code of the drive waits for other executions. */
  absent: (context, input) => change(context, input, (crashes) => ({ ...crashes, isAbsent: true })),

  /** The code of the drive is about to continue. */
  present: (context, input) => change(context, input, (crashes) => ({ ...crashes, isAbsent: undefined })),
};

/** Changes the count of the current drive at a row. */
async function change(
  context: ObjectContext,
  { drive, row }: CrashInput,
  toNext: (crashes: Crashes) => Omit<Crashes, "row">,
): Promise<number> {
  const now = await context.get<RegisterStatus>("status");
  if (now?.drive !== drive) return 0;
  const found = await context.get<Crashes>("crashes");
  const crashes = { ...toNext(found?.row === row ? found : { row, count: 0, isIsolated: false }), row };
  context.set<Crashes>("crashes", crashes);
  return crashes.count;
}
