import { Button } from "./button.tsx";
import { Text } from "./text.tsx";
import { toDuration } from "./time.tsx";

/** A bar of a waterfall, in milliseconds since 1970. */
export interface WaterfallRow {
  readonly id: string;
  readonly name: string;
  readonly depth: number;
  readonly status: string;
  readonly from: number;
  /** Undefined: it has not ended. */
  readonly to: number | undefined;
}

export interface WaterfallProps {
  readonly label: string;
  readonly rows: readonly WaterfallRow[];
  readonly selected: string | undefined;
  onSelect(id: string): void;
}

/** A tree whose rows have time bars. */
export function Waterfall({ label, rows, selected, onSelect }: WaterfallProps) {
  const start = Math.min(...rows.map(({ from }) => from));
  const end = Math.max(...rows.map(({ from, to = Date.now() }) => Math.max(from, to)), start + 1);
  return (
    <ol class="waterfall" aria-label={label}>
      {rows.map(({ id, name, depth, status, from, to }) => (
        <li key={id}>
          <Button
            class="plain"
            data-depth={Math.min(depth, 12)}
            aria-pressed={id === selected}
            onClick={() => onSelect(id)}
          >
            <Text value={name} />
          </Button>
          <Bar status={status} left={(from - start) / (end - start)} right={((to ?? end) - start) / (end - start)} />
          <small>{to === undefined ? "running" : toDuration(to - from)}</small>
        </li>
      ))}
    </ol>
  );
}

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
