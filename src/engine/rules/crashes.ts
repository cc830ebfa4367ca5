/** The crashes in a row, without a new row between them, after which an execution is a suspect. The next one suspends it. */
export const maxCrashes = 2;
/** The crash count of a suspect that ran beside one started later. It runs alone to its next row. */
export const crashesBeside: number = maxCrashes + 1;
/** The crash count of the suspect that was started last. */
export const crashesOfCulprit: number = maxCrashes + 2;
/** Max time for which a suspect holds up the next one, unless it must run alone. */
export const suspectMs = 30_000;

/** The reasons of executions that end, or are suspended, after a crash. */
export const crashed: string = `Interrupted ${maxCrashes + 1} times by a crash`;
export const interrupted = "Interrupted by a restart";

/** The role of an execution in a crash: the suspect started last, a suspect beside it, or any other execution. */
export type CrashRole = "last" | "beside" | "other";

/** The crash count of an execution after one more crash. */
export function afterCrash(count: number, role: CrashRole): number {
  if (role === "last") return crashesOfCulprit;
  return role === "beside" ? crashesBeside : Math.max(count, Math.min(count + 1, maxCrashes));
}

/** The treatment of an execution with this crash count: it continues, waits for its turn as a suspect, or is suspended. */
export function toVerdict(count: number): "continue" | "suspect" | "suspend" {
  if (count > crashesBeside) return "suspend";
  return count >= maxCrashes ? "suspect" : "continue";
}

/** True for a suspect that runs alone, without `suspectMs`. */
export const isAlone = (count: number): boolean => count === crashesBeside;
