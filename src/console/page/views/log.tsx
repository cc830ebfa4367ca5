import { useEffect, useRef, useState } from "preact/hooks";
import { toQuery } from "../server/api.ts";
import { Choice, TextField } from "../parts/field.tsx";
import { Json } from "../parts/json.tsx";
import { Empty } from "../parts/states.tsx";
import { toVisible } from "../parts/text.tsx";
import { place, runLink, setQuery } from "../place.ts";
import { openSocket } from "../server/socket.ts";

interface LogRecord {
  readonly seq: number;
  readonly timestamp: string;
  readonly level: string;
  readonly message: string;
  readonly workflowId?: string;
  readonly executionId?: string;
  readonly agentId?: string;
  readonly stepId?: string;
  readonly data?: unknown;
  readonly error?: string;
}

/** The records that are shown. Older ones leave. */
const max = 1_000;
const levels = ["trace", "debug", "info", "warn", "error", "fatal"];
const ids = ["workflowId", "agentId", "executionId"] as const;

type LogFilter = Readonly<Record<string, string | undefined>>;

/** The log of the server, as it is written. */
export function Log() {
  const { query } = place.value;
  const filter = Object.fromEntries(["level", ...ids].map((name) => [name, query.get(name) ?? undefined]));
  const { level = "info" } = filter;
  const records = useRecords(toQuery({ ...filter, level, limit: 500 }));
  const [isFollowing, setFollowing] = useState(true);
  const end = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (isFollowing) end.current?.scrollIntoView({ block: "nearest" });
  }, [records, isFollowing]);
  return (
    <>
      <h1>Log</h1>
      <div class="filters">
        <LogFilters filter={{ ...filter, level }} onChange={(change) => setQuery({ ...filter, ...change })} />
        <div class="field" data-kind="boolean">
          <input
            id="log-follow"
            type="checkbox"
            checked={isFollowing}
            onChange={(event) => setFollowing(event.currentTarget.checked)}
          />
          <label for="log-follow">Follow</label>
        </div>
      </div>
      {records.length === 0 && <Empty>No records yet.</Empty>}
      <ol class="log" aria-label="Log records">
        {records.map((record) => (
          <Record key={record.seq} record={record} />
        ))}
      </ol>
      <div ref={end} />
    </>
  );
}

/** Follows the log with this query. */
function useRecords(query: string): readonly LogRecord[] {
  const [records, setRecords] = useState<readonly LogRecord[]>([]);
  useEffect(() => {
    let fresh: LogRecord[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    const add = (): void => {
      timer = undefined;
      const added = fresh;
      fresh = [];
      setRecords((before) => [...before, ...added].slice(-max));
    };
    const close = openSocket(`/ws/logs${query}`, {
      onMessage({ type, data }) {
        if (type === "LOGS_SNAPSHOT") {
          fresh = [];
          setRecords(data as LogRecord[]);
        } else if (type === "LOG") {
          fresh.push(data as LogRecord);
          timer ??= setTimeout(add, 100); // many records are one change of the page
        }
      },
    });
    return () => {
      close();
      clearTimeout(timer);
    };
  }, [query]);
  return records;
}

function LogFilters({ filter, onChange }: { filter: LogFilter; onChange: (change: LogFilter) => void }) {
  return (
    <>
      <Choice
        id="log-level"
        label="Level from"
        value={filter["level"]}
        choices={levels}
        onChange={(level) => onChange({ level })}
      />
      {ids.map((name) => (
        <TextField
          key={name}
          label={names[name]}
          value={filter[name] ?? ""}
          onDone={(text) => onChange({ [name]: text.trim() })}
        />
      ))}
    </>
  );
}
const names = { workflowId: "Workflow", agentId: "Agent", executionId: "Run" };

function Record({ record }: { record: LogRecord }) {
  const { timestamp, level, message, workflowId, executionId, data, error, seq } = record;
  return (
    <li data-level={level}>
      <time dateTime={timestamp}>{timestamp.slice(11, 23)}</time> <span class="level">{level}</span>{" "}
      <span>{toVisible(message)}</span>{" "}
      {workflowId !== undefined && executionId !== undefined && (
        <a href={runLink(workflowId, executionId)}>{toVisible(executionId)}</a>
      )}
      {error !== undefined && <pre>{toVisible(error)}</pre>}
      {data !== undefined && <Data value={data} label={`Data of record ${seq}`} />}
    </li>
  );
}

/** The data of a record in one line, which opens to the whole value. */
function Data({ value, label }: { value: unknown; label: string }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <details open={isOpen} onToggle={({ currentTarget }) => setOpen(currentTarget.open)}>
      <summary>{toVisible(toLine(value))}</summary>
      {isOpen && <Json label={label} value={value} />}
    </details>
  );
}

function toLine(value: unknown): string {
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const texts = Object.entries(value).map(([name, one]) => {
    return `${name}=${typeof one === "string" ? one : JSON.stringify(one)}`;
  });
  const line = texts.join("  ");
  return line.length > maxOfLine ? `${line.slice(0, maxOfLine)}…` : line;
}
const maxOfLine = 300;
