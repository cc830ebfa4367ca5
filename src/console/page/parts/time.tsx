import { signal } from "@preact/signals";

/** The current time, renewed every second while the page is visible. */
const now = signal(Date.now());
setInterval(() => {
  if (!document.hidden) now.value = Date.now();
}, 1_000);

/** A time relative to now, with the whole time as its title. */
export function Time({ at }: { at: string }) {
  const date = new Date(at);
  return (
    <time dateTime={at} title={date.toLocaleString()}>
      {toRelative(date.getTime() - now.value)}
    </time>
  );
}

/** The time from `from` to `to`, or to now. */
export function Duration({ from, to }: { from: string; to: string | null }) {
  return <span>{toDuration((to === null ? now.value : Date.parse(to)) - Date.parse(from))}</span>;
}

export function toDuration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const minutes = Math.floor(ms / 60_000);
  if (minutes < 60) return `${minutes} min ${Math.floor((ms % 60_000) / 1_000)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} days`;
}

function toRelative(ms: number): string {
  const size = Math.abs(ms);
  if (size < 2_000) return "now";
  const amount = size < 60_000 ? `${Math.round(size / 1_000)} s` : toDuration(size).replace(/ \d+ s$/, "");
  return ms < 0 ? `${amount} ago` : `in ${amount}`;
}
