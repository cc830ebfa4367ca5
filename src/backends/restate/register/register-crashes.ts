import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Crashes, CrashInput, RegisterStatus } from "./register-state.ts";

/** The crashes in a row, without a new row between them, after which an execution is a suspect. The next one suspends it. */
export const maxCrashes = 2;

/** Resolves to the number of crashes; null when there is no register. */
type CountCrashes = (context: ObjectContext, input: CrashInput) => Promise<number | null>;

/** The handlers that count the crashes by which an execution was interrupted without a new row between them. */
export const crashHandlers: Record<"interrupted" | "isolated" | "released", CountCrashes> = {
  /** The drive runs again after an interruption. Resolves to the number of crashes. */
  interrupted: (context, input) =>
    change(context, input, ({ count, isIsolated }) => {
      // Beside others, it is not known which of them ended the process.
      return { count: isIsolated ? maxCrashes + 1 : Math.min(count + 1, maxCrashes), isIsolated: false };
    }),

  /** The code of a suspect is about to run, with no other suspect beside it. */
  isolated: (context, input) => change(context, input, ({ count }) => ({ count, isIsolated: true })),

  /** A living process was cut off from the drive: the next interruption is not a crash. */
  released: (context, input) =>
    change(context, input, ({ count }) => ({ count: Math.max(count - 1, -1), isIsolated: false })),
};

/** Changes the count of the current drive at a row. */
async function change(
  context: ObjectContext,
  { drive, row }: CrashInput,
  toNext: (crashes: Crashes) => Omit<Crashes, "row">,
): Promise<number | null> {
  const now = await context.get<RegisterStatus>("status");
  if (!now) return null;
  if (now.drive !== drive) return 0;
  const found = await context.get<Crashes>("crashes");
  const crashes = { row, ...toNext(found?.row === row ? found : { row, count: 0, isIsolated: false }) };
  context.set<Crashes>("crashes", crashes);
  return crashes.count;
}
