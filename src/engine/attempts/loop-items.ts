import type { LoopStart } from "../walk/decision.ts";

/** The result of an entry that begins a loop. */
export class LoopItems {
  readonly start: LoopStart;
  readonly items: readonly unknown[] | undefined;

  constructor(start: LoopStart, items: readonly unknown[] | undefined) {
    this.start = start;
    this.items = items;
  }
}
