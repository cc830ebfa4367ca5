/** Formats the time since a moment for a person: `5 s ago`, `3 min ago`, `2 h ago`, `4 d ago`. */
export function toAge(iso: string, now: number): string {
  const ms = Math.max(0, now - Date.parse(iso));
  return Number.isNaN(ms) ? "" : `${toSpan(ms)} ago`;
}

/** Formats a moment to come, and the time until then: `2030-01-31T03:00:00.000Z (in 5 h)`. Empty if it is not a time. */
export function toMoment(iso: string, now: number): string {
  const at = Date.parse(iso);
  if (Number.isNaN(at)) return "";
  return `${new Date(at).toISOString()} (${at > now ? `in ${toSpan(at - now)}` : "now"})`;
}

/** Formats the time between two moments; empty if one of them is missing. */
export function toTook(startAt: string, endAt: string | null): string {
  const ms = endAt === null ? Number.NaN : Date.parse(endAt) - Date.parse(startAt);
  return Number.isNaN(ms) ? "" : toSpan(Math.max(0, ms));
}

function toSpan(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  for (const [unit, max, size] of units) if (ms < max) return `${Math.floor(ms / size)} ${unit}`;
  return `${Math.floor(ms / 86_400_000)} d`;
}
const units = [
  ["s", 120_000, 1_000],
  ["min", 7_200_000, 60_000],
  ["h", 172_800_000, 3_600_000],
] as const;
