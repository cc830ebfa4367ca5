import { useEffect, useRef } from "preact/hooks";
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

/** Rows of a tree with bars of their times. */
export function Waterfall({ label, rows, selected, onSelect }: WaterfallProps) {
  const start = Math.min(...rows.map(({ from }) => from));
  const end = Math.max(...rows.map(({ from, to = Date.now() }) => Math.max(from, to)), start + 1);
  return (
    <ol class="waterfall" aria-label={label}>
      {rows.map(({ id, name, depth, status, from, to }) => (
        <li key={id}>
          <button
            type="button"
            class="plain"
            data-depth={Math.min(depth, 12)}
            aria-pressed={id === selected}
            onClick={() => onSelect(id)}
          >
            <Text value={name} />
          </button>
          <Bar status={status} left={(from - start) / (end - start)} width={((to ?? end) - from) / (end - start)} />
          <small>{to === undefined ? "running" : toDuration(to - from)}</small>
        </li>
      ))}
    </ol>
  );
}

/** A bar whose place is set by script: the policy of the page forbids style attributes. */
export function Bar({ status, left, width }: { status: string; left: number; width: number }) {
  const bar = useRef<HTMLSpanElement>(null);
  useEffect(() => {
    bar.current?.style.setProperty("margin-left", `${(left * 100).toFixed(2)}%`);
    bar.current?.style.setProperty("width", `max(2px, ${(width * 100).toFixed(2)}%)`);
  }, [left, width]);
  return (
    <span class="bar-line" aria-hidden="true">
      <span class="bar" data-status={status} ref={bar} />
    </span>
  );
}
