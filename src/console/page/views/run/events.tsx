import { useState } from "preact/hooks";
import { Json } from "../../parts/json.tsx";
import { Empty, Problem } from "../../parts/states.tsx";
import { Text } from "../../parts/text.tsx";
import { useRowWindow } from "../../parts/window.ts";
import type { EventLog, RunEvent } from "./event-log.ts";

const rowHeight = 32;

/** The events of a run, the newest last. */
export function Events({ log, startAt }: { log: EventLog; startAt: string }) {
  void log.version.value;
  const { events, dropped } = log;
  const [selected, setSelected] = useState<RunEvent | undefined>();
  const view = useRowWindow(events.length, rowHeight);
  const shown = events.slice(view.first, view.end);
  return (
    <>
      {log.problem.value !== undefined && <Problem message={log.problem.value} />}
      {events.length === 0 && <Empty>No events yet.</Empty>}
      {dropped > 0 && <p class="hint">{dropped} older events are not shown.</p>}
      <div class="split">
        <div
          class="tree"
          role="group"
          aria-label={`${events.length} events`}
          tabIndex={0}
          ref={view.box}
          onScroll={view.onScroll}
        >
          <div class="tree-rows" style={{ height: `${events.length * rowHeight}px` }}>
            {shown.map((event, index) => {
              const at = view.first + index;
              return (
                <button
                  key={dropped + at}
                  type="button"
                  class="tree-row event"
                  aria-pressed={event === selected}
                  style={{ top: `${at * rowHeight}px` }}
                  onClick={() => setSelected(event)}
                >
                  <small>{event.seq ?? "–"}</small>
                  <span class="tree-name">
                    <Text value={event.type} /> {event.from !== undefined && <Text value={event.from} />}
                  </span>
                  <small>+{Math.max(0, Date.parse(event.timestamp) - Date.parse(startAt)).toLocaleString()} ms</small>
                </button>
              );
            })}
          </div>
        </div>
        {selected && <Json key={String(events.indexOf(selected))} value={selected} label="Event" depth={2} />}
      </div>
    </>
  );
}
