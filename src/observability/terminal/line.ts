import { isOwnId } from "../../core/id.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { LogRecord } from "../record.ts";
import { dim, plain, type Part, type Style } from "./text.ts";

/** The line of a record. A `text` behind the parts is wrapped, otherwise the line is cut to the width of the terminal. */
export interface Line {
  readonly parts: readonly Part[];
  readonly text?: string | undefined;
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
  const { message } = record;
  const data = (record.data ?? {}) as Readonly<Record<string, unknown>>;
  const subject = toSubject(record, isShort);
  switch (message) {
    case "Request completed":
      return { parts: toRequest(data), hasData: true };
    case "Execution suspended": {
      const at = record.stepId ? ` at ${show(record.stepId)}` : "";
      const verb = { text: "suspended", style: "yellow" } as const;
      return { parts: [subject, verb, plain(`${at}: ${toReason(data)}`)], hasData: true };
    }
    case "Execution completed":
      return {
        parts: [subject, { text: "completed", style: "green" }, dim(` ${toDuration(data["ms"])}`)],
        hasData: true,
      };
    case "Execution cancelled":
      return {
        parts: [subject, { text: "cancelled", style: "yellow" }, plain(`: ${show(data["reason"])}`)],
        hasData: true,
      };
    case "Execution failed":
      return { ...toFailure(record, subject, headline), hasData: true };
    case "Step failed":
      if (!data["isTolerated"]) return { ...toFailure(record, subject, headline), hasData: true };
      return {
        parts: [subject, plain(show(record.stepId))],
        text: ` failed: ${headline}`,
        hasData: true,
      };
    case "Step attempt failed": {
      const { attempt, attempts, delayMs } = data;
      const when = `attempt ${Number(attempt) + 1} of ${show(attempts)} in ${toDuration(delayMs)}`;
      return {
        parts: [subject, plain(`${show(record.stepId)}: `), { text: when, style: "yellow" }, plain(`: ${headline}`)],
        hasData: true,
      };
    }
    default:
      return {
        parts: toWhere(record, subject),
        text: [show(message), headline].filter(Boolean).join(": "),
        hasData: false,
      };
  }
}

function toFailure({ stepId }: LogRecord, subject: Part, headline: string | undefined): Omit<Line, "hasData"> {
  const at = stepId ? ` at ${show(stepId)}` : "";
  return { parts: [subject, { text: "failed", style: "red" }], text: `${at}: ${headline}` };
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
