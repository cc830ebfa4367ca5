import type { Notes } from "../code.ts";
import type { FastClock } from "./clock.ts";

/** What the code of the steps did, and what went wrong in it. */
export class Book implements Notes {
  readonly problems: string[] = [];
  /** Of each execution, how often code of its steps began. */
  readonly begun: Map<string, number> = new Map();
  /** How often code began under an idempotency key. */
  readonly byIdempotencyKey: Map<string, number> = new Map();
  /** How often an entry was launched, by execution and key of the journal. */
  readonly byEntry: Map<string, number> = new Map();
  /** Entries that ended when nobody waited for them any more. A new set for each life: some end in the next one. */
  late: Set<string> = new Set();
  /** The executions that were played, forks included. */
  readonly executions: string[] = [];
  readonly mended: Set<string> = new Set();
  /** The events that were sent. */
  sent = 0;
  readonly #clock: FastClock | undefined;

  constructor(clock?: FastClock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock?.now() ?? Date.now();
  }
  hasJumped(): boolean {
    return this.#clock?.hasJumped ?? true;
  }
  isMended(executionId: string): boolean {
    return this.mended.has(executionId);
  }
  called(executionId: string, idempotencyKey: string): void {
    count(this.begun, executionId);
    count(this.byIdempotencyKey, idempotencyKey);
  }
  wrong(message: string): void {
    this.problems.push(message);
  }
  clear(): void {
    for (const map of [this.begun, this.byIdempotencyKey, this.byEntry]) map.clear();
    this.late = new Set();
  }
}

export function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}
