import { stripVTControlCharacters } from "node:util";
import { expect } from "vitest";
import { runInScope, type Scope } from "../../../src/core/scope.ts";
import { createLogs } from "../../../src/observability/logs.ts";
import { toTerminalLines } from "../../../src/observability/terminal/terminal.ts";
import type { Block } from "./blocks.ts";

const time = /^\d\d:\d\d:\d\d /;
const request = /^(?<method>[A-Z]+) (?<route>\/\S*) (?<status>\d{3}) (?<ms>.+)$/;
const execution =
  /^(?:(?<level>warn|error) )?(?<workflowId>\S+) (?<executionId>\S+?-\d) (?:(?<verb>suspended|completed|cancelled|failed)(?: at (?<at>\w+))?(?:: | )|(?<step>\w+): attempt (?<next>\d) of (?<attempts>\d) in (?<delay>\d+) ms: )(?<rest>.+)$/;

/** `text`: the log of `dev` in a terminal. Each line is that of a record which the terminal composes again. */
export async function runLogLines({ text }: Block): Promise<void> {
  for (const line of text.trimEnd().split("\n")) {
    if (time.test(line)) expect(compose(line.replace(time, ""))).toBe(line.replace(time, ""));
    else expect(line).toMatch(/^ {2}(at |… \d+ more, shown with --debug$|\S+:\d+:\d+$|[ >] \d+ \||  +\| +\^$)/);
  }
}

function compose(line: string): string {
  const { method, route, status, ms } = request.exec(line)?.groups ?? {};
  if (method) return write("info", "Request completed", { method, route, status: Number(status), ms: toMs(ms!) }, {});
  const { level, verb, at, step, next, attempts, delay, rest = "", ...ids } = execution.exec(line)?.groups ?? {};
  const scope = { workflowId: ids["workflowId"], executionId: ids["executionId"], stepId: at ?? step };
  if (step) {
    const data = { attempt: Number(next) - 1, attempts: Number(attempts), delayMs: Number(delay), error: rest };
    return write("warn", "Step attempt failed", data, scope);
  }
  if (level) return write("error", "Step failed", { error: rest }, scope);
  const data = { reason: rest.replace(/^"(.*)"$/, "$1"), ms: toMs(rest) };
  return write("info", `Execution ${verb}`, data, scope);
}

const toMs = (text: string): number => Number.parseFloat(text) * (text.endsWith(" s") ? 1_000 : 1);

function write(level: "info" | "warn" | "error", message: string, data: Record<string, unknown>, scope: Scope): string {
  let first = "";
  const { logger } = createLogs({
    logRecords: 1,
    logBytes: 10_000,
    output: (entry) => ([first = ""] = toTerminalLines(entry, { error: undefined, columns: 120 }, {})),
  });
  runInScope(scope, () => logger[level](message, data));
  return stripVTControlCharacters(first).replace(time, "");
}
