const units: Record<string, number> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000, w: 604_800_000 };

export const durationRule = 'a duration such as "30m", "12h" or "7d"';

/** Parses a duration such as `"7d"` to milliseconds. Returns undefined for any other value. */
export function fromDuration(text: unknown): number | undefined {
  const [, count, unit] = /^(\d{1,9})(ms|s|m|h|d|w)$/.exec(typeof text === "string" ? text : "") ?? [];
  return count && unit ? Number(count) * units[unit]! : undefined;
}

/** The longest delay of a Node timer. With a longer one it fires at once. */
export const longestTimerMs: number = 2 ** 31 - 1;
