import type { LanguageModelV4StreamPart } from "@ai-sdk/provider";
import type { LanguageModelUsage } from "ai";
import type { Clock } from "../../core/clock.ts";

/** Max intervals between parts that count. */
const max = 10_000;

/** The times at which the parts of one model call arrive. The SDK measures them only where it streams itself. */
export class PartTimes {
  readonly #clock: Clock;
  readonly #since: number;
  #first: number | undefined;
  #last = 0;
  readonly #between: number[] = [];

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#since = clock.monotonic();
  }

  add(part: LanguageModelV4StreamPart): void {
    if (!isOutput(part)) return;
    const at = this.#clock.monotonic();
    if (this.#first === undefined) this.#first = at - this.#since;
    else if (this.#between.length < max) this.#between.push(at - this.#last);
    this.#last = at;
  }

  /** Returns the fields of `performance` of a step. `whole` is the time of the model call. */
  toPerformance({ inputTokens, outputTokens }: LanguageModelUsage, whole: number): object {
    const first = this.#first;
    if (first === undefined) return {};
    const between = this.#between;
    return {
      outputTokensPerSecond: toRate(outputTokens, whole - first),
      inputTokensPerSecond: toRate(inputTokens, first),
      timeToFirstOutputMs: first,
      ...(between.length > 0 && { timeBetweenOutputChunksMs: toStatistics(between) }),
    };
  }
}

function isOutput(part: LanguageModelV4StreamPart): boolean {
  if ("delta" in part) return part.delta.length > 0;
  return part.type === "file" || part.type === "reasoning-file" || part.type === "tool-call";
}

function toRate(tokens = 0, ms: number): number {
  const rate = (1_000 * tokens) / ms;
  return Number.isFinite(rate) ? rate : 0;
}

function toStatistics(times: readonly number[]): object {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): number => sorted[Math.ceil(share * sorted.length) - 1]!;
  const avg = times.reduce((sum, time) => sum + time, 0) / times.length;
  return { min: sorted[0], p10: at(0.1), median: at(0.5), avg, p90: at(0.9), max: sorted.at(-1) };
}
