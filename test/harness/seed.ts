import { bySize } from "./size.ts";

/**
 * The seed of generated tests, or `SEED`. At quick size it is always the same, so that a change fails by its own faults only. At
 * full size it is new in each run.
 */
export const seed: number = Number(process.env["SEED"] ?? bySize(1, Date.now() % 1_000_000));
