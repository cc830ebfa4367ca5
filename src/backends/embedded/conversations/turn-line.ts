import type { ServeError } from "../../../core/error.ts";
import { isLineFull, lineFull } from "../../../engine/rules/turn-line.ts";

/** A place in a line, which waits. */
interface TurnPlace {
  grant(): void;
  /** Absent: it cannot be refused. */
  readonly refuse?: (reason: ServeError) => void;
}

/** The lines of turns, by conversation. A conversation has a line while one of its turns is open, or is being deleted. */
export class TurnLines {
  readonly #lines = new Map<string, TurnPlace[]>();

  has(key: string): boolean {
    return this.#lines.has(key);
  }

  /** Waits until the places before this one are passed on. A new one is refused if the line is full. */
  take(key: string, signal: AbortSignal, isNew: boolean): Promise<void> {
    signal.throwIfAborted();
    const line = this.#lines.get(key);
    if (!line) this.#lines.set(key, []);
    if (!line) return Promise.resolve();
    if (isNew && isLineFull(1 + line.length)) throw lineFull();
    return new Promise((resolve, reject) => {
      const place: TurnPlace = {
        grant: () => {
          signal.removeEventListener("abort", leave);
          resolve();
        },
        refuse: (reason) => {
          signal.removeEventListener("abort", leave);
          reject(reason);
        },
      };
      const leave = (): void => {
        line.splice(line.indexOf(place), 1);
        reject(signal.reason as Error);
      };
      line.push(place);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** Refuses all that wait, and takes the next place. */
  clear(key: string, reason: ServeError): Promise<void> {
    const line = this.#lines.get(key);
    if (!line) this.#lines.set(key, []);
    if (!line) return Promise.resolve();
    const refused = line.filter(({ refuse }) => refuse);
    line.splice(0, line.length, ...line.filter(({ refuse }) => !refuse));
    for (const { refuse } of refused) refuse!(reason); // these have one
    return new Promise((resolve) => line.push({ grant: resolve }));
  }

  /** Passes the line on to the next place. */
  pass(key: string): void {
    const next = this.#lines.get(key)?.shift();
    if (next) next.grant();
    else this.#lines.delete(key);
  }
}
