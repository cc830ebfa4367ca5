import { isOwnId } from "../../core/id.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { LogRecord } from "../record.ts";
import { dim, plain, type Part, type Style } from "./text.ts";

/** The line of a record. A `text` behind the parts is wrapped, otherwise the line is cut to the width of the terminal. */
interface LineText {
  readonly parts: readonly Part[];
  readonly text?: string | undefined;
}
export interface Line extends LineText {
  /** True if `data` is part of the line. */
  readonly hasData: boolean;
}

/** The text of a suspension: the words of a person in quotes, or what it waits for. */
function toReason({ reason, kind, wakeAt, event }: Readonly<Record<string, unknown>>): string {
  if (kind === "timer" && wakeAt !== undefined) return `sleeps until ${show(wakeAt)}`;
  if (kind === "event" && event !== undefined) return `waits for the event ${show(event)}`;
  return quote(reason);
}

/** Composes the line of a record. `isShort` shortens generated ids. */
export function toLine(record: LogRecord, headline: string | undefined, isShort = false): Line {
  const subject = toSubject(record, isShort);
  const known = toKnownLine(record, subject, headline);
  if (known) return { ...known, hasData: true };
  const text = [show(record.message), headline].filter(Boolean).join(": ");
  return { parts: toWhere(record, subject), text, hasData: false };
}

/** Composes the line of the server's own records about requests, executions and steps. */
function toKnownLine(record: LogRecord, subject: Part, headline: string | undefined): LineText | undefined {
  const { message, stepId } = record;
  const data = (record.data ?? {}) as Readonly<Record<string, unknown>>;
  const at = stepId ? ` at ${show(stepId)}` : "";
  const failed = { parts: [subject, { text: "failed", style: "red" } as const], text: `${at}: ${headline}` };
  switch (message) {
    case "Request completed":
      return { parts: toRequest(data) };
    case "Execution suspended":
      return { parts: [subject, { text: "suspended", style: "yellow" }, plain(`${at}: ${toReason(data)}`)] };
    case "Execution completed":
      return { parts: [subject, { text: "completed", style: "green" }, dim(` ${toDuration(data["ms"])}`)] };
    case "Execution cancelled":
      return { parts: [subject, { text: "cancelled", style: "yellow" }, plain(`: ${show(data["reason"])}`)] };
    case "Execution failed":
      return failed;
    case "Step failed":
      if (!data["isTolerated"]) return failed;
      return { parts: [subject, plain(show(stepId))], text: ` failed: ${headline}` };
    case "Step attempt failed": {
      const { attempt, attempts, delayMs } = data;
      const when = `attempt ${Number(attempt) + 1} of ${show(attempts)} in ${toDuration(delayMs)}`;
      return { parts: [subject, plain(`${show(stepId)}: `), { text: when, style: "yellow" }, plain(`: ${headline}`)] };
    }
    default:
      return undefined;
  }
}

function toRequest({ method, route, status, ms, stream }: Readonly<Record<string, unknown>>): Part[] {
  return [
    plain(`${show(method)} ${show(route ?? "(no route)")} `),
    { text: show(status), style: toStyle(Number(status)) },
    dim(`${stream ? " stream" : ""} ${toDuration(ms)}`),
  ];
}

function toStyle(status: number): Style {
  if (status >= 500) return "red";
  if (status >= 400) return "yellow";
  return status >= 300 ? "cyan" : "green";
}

/** The execution of a record: the workflow and the id. */
function toSubject({ workflowId, executionId }: LogRecord, isShort: boolean): Part {
  const id = show(executionId);
  const short = isShort && isOwnId(id) ? `${id.slice(0, 8)}…` : id;
  return {
    text: [show(workflowId), short]
      .filter(Boolean)
      .map((word) => `${word} `)
      .join(""),
    style: "cyan",
  };
}

/** The execution and step of a record, or its agent. */
function toWhere({ executionId, stepId, agentId }: LogRecord, subject: Part): Part[] {
  const inner = [stepId, agentId && `agent ${agentId}`].filter((name) => name !== undefined).map(show);
  if (executionId === undefined && inner.length === 0) return [];
  return [subject, plain(`${inner.join(" ")}: `)];
}

/** Converts milliseconds for a person: `0.4 ms`, `12 ms`, `1.5 s`, `3 min`, `2 h`, `5 d`. */
function toDuration(given: unknown): string {
  const ms = Number(given);
  if (ms < 1_000) return `${ms < 10 ? Math.round(ms * 10) / 10 : Math.round(ms)} ms`;
  for (const [unit, max, size] of units) if (ms < max) return `${Math.round((ms / size) * 10) / 10} ${unit}`;
  return `${Math.round(ms / 86_400_000)} d`;
}
const units = [
  ["s", 60_000, 1_000],
  ["min", 3_600_000, 60_000],
  ["h", 86_400_000, 3_600_000],
] as const;

const show = (value: unknown): string => (value === undefined ? "" : toVisible(String(value)));
const quote = (value: unknown): string => JSON.stringify(show(value)).replaceAll("\\\\", "\\");
