import { stripVTControlCharacters } from "node:util";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { LogLevel } from "../../../src/core/log.ts";
import { runInScope, type Scope } from "../../../src/core/scope.ts";
import { createLogs } from "../../../src/observability/logs.ts";
import { toTerminalLines, type TerminalOptions } from "../../../src/observability/terminal/terminal.ts";
import { fit, plain, widthOf, wrap } from "../../../src/observability/terminal/text.ts";

const own = "01a1e405-4eab-70ca-aeb2-4ee885602a2f";
const chair = { workflowId: "approval", executionId: "chair-1" };
interface Written {
  level?: LogLevel;
  columns?: number;
  scope?: Scope;
  options?: TerminalOptions;
}

/** The lines of one record, without the time in front and without colors. */
function linesOf(message: string, data?: Record<string, unknown>, written: Written = {}): string[] {
  const { level = "info", columns = 80, scope = {}, options = {} } = written;
  let lines: string[] = [];
  const { logger } = createLogs({
    logRecords: 10,
    logBytes: 1_000_000,
    output: (entry, _, given) => (lines = toTerminalLines(entry, { error: given?.["error"], columns }, options)),
  });
  runInScope(scope, () => logger[level](message, data));
  const [first = "", ...rest] = lines.map(stripVTControlCharacters);
  expect(first).toMatch(/^\d\d:\d\d:\d\d /);
  for (const line of [first, ...rest]) expect(widthOf(line), line).toBeLessThanOrEqual(columns);
  return [first.slice(9), ...rest];
}

describe("a line of the terminal", () => {
  const request = { method: "POST", route: "/workflows/:id/execute", status: 200, ms: 12.3 };
  it.each<[string, string, Record<string, unknown>, Scope?, LogLevel?]>([
    ["POST /workflows/:id/execute 200 12 ms", "Request completed", request],
    ["POST /workflows/:id/execute 200 0.4 ms", "Request completed", { ...request, ms: 0.4 }],
    [
      "POST /workflows/:id/stream 200 stream 3 ms",
      "Request completed",
      { ...request, route: "/workflows/:id/stream", ms: 3, stream: true },
    ],
    ["GET (no route) 404 1.5 s", "Request completed", { method: "GET", status: 404, ms: 1_490 }],
    [
      'approval chair-1 suspended at decide: "Approve 500?"',
      "Execution suspended",
      { reason: "Approve 500?", ms: 3 },
      { ...chair, stepId: "decide" },
    ],
    [
      "a x suspended at nap: sleeps until 2026-02-01T00:00:00.000Z",
      "Execution suspended",
      { reason: "Sleeping until …", kind: "timer", wakeAt: "2026-02-01T00:00:00.000Z", ms: 3 },
      { workflowId: "a", executionId: "x", stepId: "nap" },
    ],
    [
      "approval chair-1 suspended at paid: waits for the event paid",
      "Execution suspended",
      { reason: "Waiting for event paid", kind: "event", event: "paid", ms: 3 },
      { ...chair, stepId: "paid" },
    ],
    ['approval chair-1 suspended: "Paused"', "Execution suspended", { reason: "Paused", ms: 3 }, chair],
    ["approval chair-1 completed 84 ms", "Execution completed", { ms: 84 }, chair],
    ["approval chair-1 completed 2 d", "Execution completed", { ms: 172_800_000 }, chair],
    ["approval chair-1 cancelled: No budget", "Execution cancelled", { reason: "No budget", ms: 3 }, chair],
    [
      "approval chair-1 failed at pay: Interrupted",
      "Execution failed",
      { error: "Interrupted", ms: 3 },
      { ...chair, stepId: "pay" },
    ],
    [
      "warn approval chair-1 pay: attempt 2 of 4 in 300 ms: Busy",
      "Step attempt failed",
      { error: new Error("Busy"), attempt: 1, attempts: 4, delayMs: 300 },
      { ...chair, stepId: "pay" },
      "warn",
    ],
    ["approval chair-1 pay: Paid { amount: 3 }", "Paid", { amount: 3 }, { ...chair, stepId: "pay" }],
    ["agent support: Slow", "Slow", { operationId: "1" }, { agentId: "support" }],
    ["warn The store is full { reason: 'disk' }", "The store is full", { reason: "disk" }, {}, "warn"],
  ])("prints the terminal line %s", (line, message, data, scope = {}, level = "info") => {
    expect(linesOf(message, data, { scope, level })).toEqual([line]);
  });

  it("shortens an id that does not fit into a terminal line, and cuts the line to the width", () => {
    const scope = { workflowId: "approval", executionId: own, stepId: "decide" };
    const line = (columns: number) => linesOf("Execution suspended", { reason: "Approve 500?" }, { scope, columns });
    expect(line(120)).toEqual([`approval ${own} suspended at decide: "Approve 500?"`]);
    expect(line(80)).toEqual(['approval 01a1e405… suspended at decide: "Approve 500?"']);
    expect(line(40)).toEqual(["approval 01a1e405… suspended a…"]);
  });

  it("wraps a long message in the terminal, because the end of an error says most", () => {
    const words = Array.from({ length: 30 }, (_, n) => `word${n}`).join(" ");
    const lines = linesOf(words, { said: "x" });
    expect(lines.length).toBeGreaterThan(2);
    expect(
      lines
        .slice(0, -1)
        .map((line) => line.trim())
        .join(" "),
    ).toBe(words);
    expect(lines.at(-1)).toBe("         { said: 'x' }");
  });

  it("prints at most 21 lines for a message of any length", () => {
    expect(linesOf("x".repeat(16_000), {}, { columns: 40 })).toHaveLength(21);
  });

  it("shows hostile text escaped, whatever it is and wherever it is", () => {
    const hostile = fc.string({
      unit: fc.constantFrom("a", "\u001b[2J", "\n", "\r", "\u202e", "\u009b", "日", "👩", " "),
    });
    const messages = [
      "Request completed",
      "Execution suspended",
      "Execution cancelled",
      "Step failed",
      "Step attempt failed",
      "Other",
    ];
    fc.assert(
      fc.property(
        hostile,
        fc.constantFrom(...messages),
        fc.integer({ min: 30, max: 200 }),
        (text, message, columns) => {
          const data = {
            method: text,
            route: text,
            reason: text,
            attempts: text,
            [text]: [text],
            error: new Error(text),
          };
          const scope = { workflowId: text, executionId: text, stepId: text, agentId: text };
          for (const line of linesOf(message, data, { scope, columns, level: "error" })) {
            expect(line).not.toMatch(/[\p{Cc}\u202e]/u);
          }
        },
      ),
    );
  });
});

describe("the error of a record", () => {
  const error = new Error("Card refused\nsee the bank", { cause: new TypeError("limit") });
  const scope = { ...chair, stepId: "pay" };
  const place = { at: "pay.ts:2:9", frame: "> 2 | throw\n    | ^", calls: ["run (w.ts:9:1)"] };

  it("prints an error as a headline, the code, the project's own calls and its causes, and folds the rest", () => {
    const lines = linesOf("Step failed", { error }, { level: "error", scope, options: { findPlace: () => place } });
    expect(lines).toEqual([
      "error approval chair-1 failed at pay: Card refused",
      "  see the bank",
      "  pay.ts:2:9",
      "  > 2 | throw",
      "      | ^",
      "  at run (w.ts:9:1)",
      expect.stringMatching(/^ {2}… \d+ more, shown with --debug$/),
      "  caused by: TypeError: limit",
    ]);
  });

  it("prints the whole stack of an error with --debug, and in start", () => {
    for (const options of [{ findPlace: () => place, debug: true }, {}]) {
      const lines = linesOf("Step failed", { error }, { level: "error", scope, columns: 200, options });
      expect(lines.filter((line) => /^ {2}at .*lines\.test\.ts/.test(line)).length).toBeGreaterThan(0);
      expect(lines.join()).not.toContain("--debug");
    }
  });

  it("prints only the headline of an error in a warning", () => {
    const data = { error, attempt: 1, attempts: 2, delayMs: 0 };
    expect(linesOf("Step attempt failed", data, { level: "warn", scope })).toEqual([
      "warn approval chair-1 pay: attempt 2 of 2 in 0 ms: Card refused",
    ]);
  });

  it("does not say that the execution failed for an error of a side effect or a branch of a race", () => {
    const data = { error: new Error("no mailbox"), attempt: 1, isTolerated: true };
    expect(linesOf("Step failed", data, { scope, level: "error" })[0]).toBe(
      "error approval chair-1 pay failed: no mailbox",
    );
  });
});

describe("a text", () => {
  it("measures a text as wide as a terminal shows it", () => {
    expect(["abc", "日本", "e\u0301", "👩", "ü"].map(widthOf)).toEqual([3, 4, 1, 2, 1]);
  });

  it("cuts a text between whole characters", () => {
    const cut = (text: string, columns: number) =>
      fit([plain(text)], columns)
        .map((part) => part.text)
        .join("");
    expect([cut("abc", 3), cut("abcd", 3), cut("日本語", 4), cut("👩👩", 3)]).toEqual(["abc", "ab…", "日…", "👩…"]);
  });

  it("breaks a text at spaces, and within a word that is longer than a line", () => {
    expect(wrap("one two three four five", 10, 12)).toEqual(["one two", "three four", "five"]);
    expect(wrap("x".repeat(25), 10, 12)).toEqual(["x".repeat(10), "x".repeat(12), "xxx"]);
  });
});
