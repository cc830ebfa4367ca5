import { ask, toQuery } from "../../server/api.ts";
import { isOpen, type ExecutionState } from "../../executions.ts";
import { useLoaded, usePolling } from "../../server/load.ts";
import { Json } from "../../parts/json.tsx";
import { ShowList } from "../../parts/states.tsx";
import { Text } from "../../parts/text.tsx";

interface LogRecord {
  readonly timestamp: string;
  readonly level: string;
  readonly message?: string;
  readonly [field: string]: unknown;
}
const limit = 500;

/** The records that the server still keeps of a run. They are read again every two seconds while it is open. */
export function RunLog({ state }: { state: ExecutionState }) {
  const { executionId } = state;
  const records = useLoaded(
    (signal) => ask<LogRecord[]>(`/api/logs${toQuery({ executionId, limit })}`, { signal }),
    [executionId, state.status],
  );
  usePolling(records.reload, 2_000, isOpen(state));
  return (
    <ShowList of={records} empty="The server keeps no records of this run. It keeps the newest ones of all runs.">
      {(items) => (
        <>
          {items.length === limit && <p class="hint">The newest {limit} records.</p>}
          <ol class="log">
            {items.map((record, index) => (
              <li key={index}>
                <Entry record={record} />
              </li>
            ))}
          </ol>
        </>
      )}
    </ShowList>
  );
}

function Entry({ record }: { record: LogRecord }) {
  const { timestamp, level, message = "", ...fields } = record;
  return (
    <details>
      <summary>
        <small>{new Date(timestamp).toLocaleTimeString()}</small>{" "}
        <span
          class="status"
          data-status={level === "error" || level === "fatal" ? "error" : level === "warn" ? "waiting" : ""}
        >
          <Text value={level} />
        </span>{" "}
        <Text value={message} />
      </summary>
      <Json value={fields} label="Record" depth={2} />
    </details>
  );
}
