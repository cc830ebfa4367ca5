import type { ExecutionView } from "../../engine/runtime.ts";
import type { StepView } from "../../workflows/history/step-views.ts";
import { toShort } from "../call/screen.ts";
import { toWaitText, type Wait } from "../call/wait-text.ts";
import { colors } from "../colors.ts";
import { statusName, statusPaint } from "./list.ts";
import { toTook } from "./times.ts";

const columns = (): number => Math.max(process.stdout.columns ?? 120, 60);

/** Returns the lines about one execution: its facts, then its steps as a tree. */
export function toRunLines(state: ExecutionView, steps: readonly StepView[]): string[] {
  const { executionId, workflowId, status, startAt, endAt, suspension, error, cancellation, forkedFrom } = state;
  const took = toTook(startAt, endAt);
  const others = (suspension?.pendingCount ?? suspension?.pending?.length ?? 1) - 1;
  const facts: [string, string | undefined][] = [
    ["execution", toShort(executionId)],
    ["workflow", toShort(workflowId)],
    ["status", statusPaint(status, cancellation)(statusName(status, cancellation))],
    ["started", toShort(startAt) + (took && colors.dim(`  took ${took}`))],
    ["user", state.context["userId"] === undefined ? undefined : toShort(state.context["userId"])],
    ["forked from", forkedFrom && toShort(forkedFrom)],
    ["error", error === undefined ? undefined : toShort(error, 2_000)],
    ["cancelled", cancellation && toShort(cancellation.reason, 2_000)],
    ["waits at", suspension && `${toShort(suspension.stepId)}: ${toWaiting(suspension)}`],
    ["also waits", others > 0 ? `${others} more, see GET …/steps?status=suspended` : undefined],
    ["input", toShort(state.input, columns() - 14)],
    ["result", "result" in state ? toShort(state.result, columns() - 14) : undefined],
  ];
  const lines = facts.flatMap(([name, value]) => (value === undefined ? [] : [colors.dim(name.padEnd(12)) + value]));
  return steps.length > 0 ? [...lines, "", ...toTreeLines(steps)] : lines;
}

/** Returns the steps as a tree. A step is behind the one that contains it. */
function toTreeLines(steps: readonly StepView[]): string[] {
  const known = new Set(steps.map(({ path }) => path));
  const inner = Map.groupBy(steps, ({ parent }) => (parent !== null && known.has(parent) ? parent : ""));
  const lines: string[] = [];
  // A loop, not a recursion: a server that is not ours could nest them without an end.
  const rest = (inner.get("") ?? []).map((step) => ({ step, depth: 0 })).toReversed();
  for (let next = rest.pop(); next && lines.length < maxLines; next = rest.pop()) {
    const { step, depth } = next;
    const name = depth === 0 ? step.path : step.stepId; // of a filtered list, the steps around it are unknown
    lines.push(...toStepLines(step, name, "  ".repeat(Math.min(depth, 20))));
    const children = inner.get(step.path) ?? [];
    inner.delete(step.path);
    rest.push(...children.map((child) => ({ step: child, depth: depth + 1 })).toReversed());
  }
  return lines;
}
const maxLines = 100_000;

function toStepLines(step: StepView, name: string, indent: string): string[] {
  const { type, status, startAt, endAt, attempts, suspension, redacted } = step;
  const [mark, paint] = marks[status] ?? ["?", colors.dim];
  const facts = [
    toShort(type),
    status === "success" || status === "running" ? "" : status,
    toTook(startAt, endAt),
    attempts.length > 1 ? `${attempts.length} attempts` : "",
    step.nextAttemptAt === undefined ? "" : `next attempt at ${toShort(step.nextAttemptAt)}`,
    step.count ? toCounts(step.count) : "",
    redacted ? "redacted" : "",
  ];
  const head = `${indent}${paint(mark)} ${toShort(name)}  ${colors.dim(facts.filter(Boolean).join("  ·  "))}`;
  const room = columns() - indent.length - 10;
  const detail = (label: string, text: string): string => `${indent}    ${colors.dim(label.padEnd(6))}${text}`;
  const errors = attempts.flatMap(({ attempt, error }) =>
    error === undefined ? [] : [detail("error", `${toShort(error, 2_000)}${colors.dim(`  attempt ${attempt}`)}`)],
  );
  return [
    head,
    ...("input" in step ? [detail("in", toShort(step.input, room))] : []),
    ...("output" in step ? [detail("out", toShort(step.output, room))] : []),
    ...errors.slice(-maxErrors),
    ...(suspension ? [detail("waits", toWaiting(suspension))] : []),
    ...(suspension?.data === undefined ? [] : [detail("data", toShort(suspension.data, room))]),
  ];
}
/** The iterations of a loop: `500 iterations: 120 success, 1 error`. */
function toCounts({ total, ...counts }: NonNullable<StepView["count"]>): string {
  const parts = Object.entries(counts).map(([status, count]) => `${count} ${toShort(status, 20)}`);
  return `${total} ${total === 1 ? "iteration" : "iterations"}${parts.length > 0 ? `: ${parts.join(", ")}` : ""}`;
}

/** The text of a wait, behind a word such as "waits". */
const toWaiting = (suspension: Wait): string => toWaitText(suspension).replace(/^waits(: | )/, "");

/** Max errors of a step that are printed: the newest ones. */
const maxErrors = 5;

const marks: Record<StepView["status"], [string, (text: string) => string]> = {
  success: ["✓", colors.green],
  skipped: ["-", colors.dim],
  running: ["▸", colors.cyan],
  waiting: ["…", colors.yellow],
  suspended: ["‖", colors.yellow],
  error: ["✗", colors.red],
  aborted: ["×", colors.dim],
};
