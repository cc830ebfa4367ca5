import { runOutOfScope } from "../../core/scope.ts";

interface Armed {
  /** Sets the time limit, if it is still needed. */
  arm(): void;
}

let fresh: Armed[] = [];

/** Sets the time limit in the next turn of the event loop. Most attempts are over by then and need no timer. */
export function armSoon(attempt: Armed): void {
  if (fresh.push(attempt) > 1) return;
  runOutOfScope(() => setImmediate(armFresh));
}
function armFresh(): void {
  const attempts = fresh;
  fresh = [];
  for (const one of attempts) one.arm();
}
