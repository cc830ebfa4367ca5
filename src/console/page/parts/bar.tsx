/** A bar of a waterfall. `left` and `right` are parts of the whole time, from 0 to 1. */
export function Bar({ status, left, right }: { status: string; left: number; right: number }) {
  const start = toPercent(left);
  const width = Math.max(toPercent(right) - start, 0);
  return (
    <span class="bar" aria-hidden="true">
      <span data-status={status} style={{ left: `${start}%`, width: `${width}%` }} />
    </span>
  );
}

const toPercent = (part: number): number => Math.min(Math.max(part * 100, 0), 100);
