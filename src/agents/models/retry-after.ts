/**
 * Returns the seconds after which a provider accepts requests again, from the headers of its response: at least 1, at most
 * an hour. Returns undefined if it does not say when.
 */
export function toRetryAfter(headers: Readonly<Record<string, unknown>>, now: number): number | undefined {
  const given = [toNumber(headers["retry-after-ms"]) / 1_000, toSeconds(headers["retry-after"], now)];
  const seconds = given.find((value) => Number.isFinite(value) && value >= 0);
  return seconds === undefined ? undefined : Math.min(Math.max(Math.ceil(seconds), 1), maxSeconds);
}
const maxSeconds = 3_600;

/** Converts a number of seconds or a date. */
function toSeconds(value: unknown, now: number): number {
  const seconds = toNumber(value);
  return Number.isNaN(seconds) ? (Date.parse(String(value)) - now) / 1_000 : seconds;
}

const toNumber = (value: unknown): number => (typeof value === "string" && value.trim() !== "" ? Number(value) : NaN);
