import type { Durations } from "../../core/metrics.ts";

/** Counts of durations in buckets. The bounds are in seconds. */
export class Histogram implements Durations {
  readonly bounds: readonly number[];
  /** The number of durations in each bucket, without the smaller buckets. The last one has no bound. */
  readonly counts: number[];
  sum = 0;

  constructor(bounds: readonly number[]) {
    this.bounds = bounds;
    this.counts = Array.from({ length: bounds.length + 1 }, () => 0);
  }

  observe(seconds: number): void {
    const at = this.bounds.findIndex((bound) => seconds <= bound);
    const bucket = at < 0 ? this.bounds.length : at;
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1;
    this.sum += seconds;
  }
}

export const requestBounds: readonly number[] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60];
export const storeBounds: readonly number[] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1];
