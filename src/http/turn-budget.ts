// Streams share a time budget per turn of the event loop. A generator whose next event is always ready would otherwise
// starve all other work.
const turnMs = 5;
let until: number | undefined;
let nextTurn: Promise<void> | undefined;

/** Returns a promise of the next turn once this turn's budget is used up. */
export function pause(): Promise<void> | undefined {
  const now = performance.now();
  if (until === undefined) {
    until = now + turnMs;
    nextTurn = new Promise((resolve) => {
      setImmediate(() => {
        until = undefined;
        resolve();
      });
    });
  }
  return now < until ? undefined : nextTurn;
}
