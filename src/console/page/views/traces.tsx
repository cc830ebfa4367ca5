import { useEffect, useState } from "preact/hooks";
import { Json } from "../parts/json.tsx";
import { Empty } from "../parts/states.tsx";
import { Text, toCount } from "../parts/text.tsx";
import { toDuration } from "../parts/time.tsx";
import { Waterfall, type WaterfallRow } from "../parts/waterfall.tsx";
import { dropped, listenForSpans, traces, type Span, type Trace } from "../traces.ts";

/** The traces of the server since this view was opened. */
export function Traces() {
  useEffect(listenForSpans, []);
  const [open, setOpen] = useState<string | undefined>();
  const all = traces.value;
  return (
    <>
      <h1>Traces</h1>
      {dropped.value > 0 && <p class="hint">{dropped.value} spans were left out: the page could not keep up.</p>}
      {all.length === 0 && (
        <Empty>Waiting for a request, a run or a call of an agent. Traces are kept only in this page.</Empty>
      )}
      <ul class="cards">
        {all.map((trace) => (
          <li key={trace.id} class="panel">
            <TraceView
              trace={trace}
              isOpen={open === trace.id}
              // An open trace that closes must not close the newly opened one.
              onToggle={(isOpen) => setOpen((now) => (isOpen ? trace.id : now === trace.id ? undefined : now))}
            />
          </li>
        ))}
      </ul>
    </>
  );
}

function TraceView({ trace, isOpen, onToggle }: { trace: Trace; isOpen: boolean; onToggle(isOpen: boolean): void }) {
  const [selected, setSelected] = useState<string | undefined>();
  const [first] = trace.spans;
  if (!first) return null;
  const span = trace.spans.find(({ spanId }) => spanId === selected);
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => onToggle(currentTarget.open)}>
      <summary>
        <strong>
          <Text value={first.name} />
        </strong>{" "}
        <small>
          {first.startTime.slice(11, 23)} · {toCount(trace.spans.length, "span")}
          {first.endTime && ` · ${toDuration(toTime(first.endTime) - toTime(first.startTime))}`}
        </small>
        {trace.spans.some(isFailed) && (
          <span class="status" data-status="error">
            error
          </span>
        )}
      </summary>
      {isOpen && (
        <Waterfall
          label={`Spans of ${first.name}`}
          rows={toRows(trace.spans)}
          selected={selected}
          onSelect={setSelected}
        />
      )}
      {isOpen && span && <Json label={`Span ${span.name}`} value={span} depth={2} />}
    </details>
  );
}

const toTime = (text: string): number => Date.parse(text);
const isFailed = ({ status }: Span): boolean => status.code === "error";

/** Returns the spans as a tree, children after their parents. */
function toRows(spans: readonly Span[]): WaterfallRow[] {
  const known = new Set(spans.map(({ spanId }) => spanId));
  const children = Map.groupBy(spans, ({ parentSpanId = "" }) => (known.has(parentSpanId) ? parentSpanId : ""));
  const rows: WaterfallRow[] = [];
  const add = (parent: string, depth: number): void => {
    for (const span of children.get(parent) ?? []) {
      const { spanId, name, startTime, endTime } = span;
      rows.push({
        id: spanId,
        name,
        depth,
        status: isFailed(span) ? "error" : endTime ? "success" : "running",
        from: toTime(startTime),
        to: endTime === undefined ? undefined : toTime(endTime),
      });
      add(spanId, depth + 1);
    }
  };
  add("", 0);
  return rows;
}
