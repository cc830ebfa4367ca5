import { inspect } from "node:util";
import { isObject } from "../../core/json.ts";
import type { LogLevel } from "../../core/log.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import type { LogEntry, LogRecord } from "../record.ts";
import { toErrorText, type ErrorText } from "./error-text.ts";
import { toLine } from "./line.ts";
import { dim, fit, paint, plain, widthOfParts, wrap, type Part, type Style } from "./text.ts";

/** The place of an error in the project's own code. */
export interface ErrorPlace {
  /** File, line and column. */
  readonly at: string;
  /** The lines of code around it. */
  readonly frame: string | undefined;
  /** The calls that led to it, in the project's own code. */
  readonly calls: readonly string[];
}

export interface TerminalOptions {
  /** Finds an error in the project's own code. The rest of its stack is then folded. @default the whole stack is shown */
  readonly findPlace?: ((error: unknown, columns: number) => ErrorPlace | undefined) | undefined;
  /** True to show the whole stack as well. @default false */
  readonly debug?: boolean | undefined;
}

/** Formats a record for a person, as lines of at most `columns`. */
export function toTerminalLines(
  { level, at, text }: Pick<LogEntry, "level" | "at" | "text">,
  { error, columns }: { error: unknown; columns: number },
  options: TerminalOptions,
): string[] {
  const record = JSON.parse(text) as LogRecord;
  const problem = record.error === undefined ? undefined : toErrorText(record.error);
  const lead: Part[] = [dim(`${toClock(at)} `), ...toLabel(level)];
  const lines = toHead(record, problem, lead, columns);
  if (problem && (isSerious(level) || isOfTool(record))) lines.push(...toDetails(problem, error, columns, options));
  return lines.map(paint);
}

const indent = "         "; // the width of the time
const isSerious = (level: LogLevel): boolean => level === "error" || level === "fatal";
/** True for the warning about a tool's error: the call is not repeated, so its code is shown as for an error. */
const isOfTool = ({ level, data }: LogRecord): boolean => level === "warn" && isObject(data) && "tool" in data;

function toHead(record: LogRecord, problem: ErrorText | undefined, lead: Part[], columns: number): Part[][] {
  const fullLine = toLine(record, problem?.headline);
  const isTooWide = widthOfParts([...lead, ...fullLine.parts, plain(fullLine.text ?? "")]) > columns;
  const { parts, text, hasData } = isTooWide ? toLine(record, problem?.headline, true) : fullLine;
  const head = [...lead, ...parts];
  const data = hasData ? [] : toData(record.data, columns);
  if (text === undefined) return [fit(head, columns)];
  const room = columns - widthOfParts(head);
  // After long ids, the text begins on a new line.
  const lines =
    room < minRoom
      ? ["", ...wrap(text.trimStart(), columns - indent.length)]
      : wrap(text, room, columns - indent.length);
  const [first = "", ...rest] = lines;
  const inline = [...head, plain(first), dim(` ${data[0]}`)];
  if (rest.length === 0 && data.length === 1 && widthOfParts(inline) <= columns) return [inline];
  return [
    fit([...head, plain(first)], columns),
    ...rest.map((line) => [plain(indent + line)]),
    ...data.map((line) => [dim(indent + line)]),
  ];
}
const minRoom = 20;

function toData(data: unknown, columns: number): string[] {
  const { operationId: _, ...shown } = isObject(data) ? data : { data }; // an id, as those that are not shown
  if (Object.values(shown).every((value) => value === undefined)) return [];
  const text = inspect(isObject(data) ? shown : data, {
    depth: 5,
    breakLength: Math.max(columns - indent.length, 40),
    compact: 3,
  });
  const lines = toVisible(text, { allowed: "\n" }).split("\n");
  return lines.flatMap((line) => wrap(line, columns - indent.length));
}

/** The lines below the headline: the code, the calls in the project and the causes. */
function toDetails(
  { more, calls, causes }: ErrorText,
  error: unknown,
  columns: number,
  { findPlace, debug }: TerminalOptions,
): Part[][] {
  const room = columns - 2;
  const place = findPlace?.(error, room);
  const shown = place ? place.calls.map((call) => `at ${call}`) : [];
  const folded = calls.length - (place ? 1 + shown.length : 0);
  const isWhole = debug || !findPlace;
  return [
    ...more.map((line) => [plain(line)]),
    ...(place ? [[dim(place.at)], ...(place.frame?.split("\n") ?? []).map((line) => [plain(line)])] : []),
    ...(isWhole ? calls : shown).map((line) => [dim(line)]),
    ...(!isWhole && folded > 0 ? [[dim(`… ${folded} more, shown with --debug`)]] : []),
    ...causes.flatMap((cause) => [
      [plain(`caused by: ${cause.headline}`)],
      ...(isWhole ? cause.calls.map((line) => [dim(line)]) : []),
    ]),
  ].map((parts: Part[]) =>
    fit([plain("  "), ...parts.map(({ text, style }) => ({ text: visible(text), style }))], columns),
  );
}
const visible = (text: string): string => toVisible(text.replaceAll("\t", "  "));

const labels: Partial<Record<LogLevel, { text: string; style: Style }>> = {
  warn: { text: "warn ", style: "yellow" },
  error: { text: "error ", style: "red" },
  fatal: { text: "fatal ", style: "red" },
};
const toLabel = (level: LogLevel): Part[] => (labels[level] ? [labels[level]] : []);

function toClock(at: number): string {
  return new Date(at).toTimeString().slice(0, 8);
}
