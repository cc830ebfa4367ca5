import { UserError } from "../../core/user-error.ts";
import { toShellWord } from "../../core/terminal/shell.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { executionStatuses, type ExecutionStatus } from "../../engine/execution.ts";
import type { ExecutionView } from "../../engine/runtime.ts";
import { stepStatuses, type StepStatus } from "../../engine/steps/step-record.ts";
import { needsAnswer } from "../call/wait-text.ts";
import { leave, printNote, print, printJson } from "../output.ts";
import { UsageError } from "../usage.ts";
import { openFileRuns, type FileRuns } from "./file-runs.ts";
import { toListLines } from "./list.ts";
import { openServerRuns, type ServerFlags } from "./server-runs.ts";
import { toRunLines } from "./show.ts";
import { findRun, type RunSource } from "./source.ts";

export interface RunsFlags extends ServerFlags {
  /** The data file of a stopped server. */
  readonly data?: string;
  readonly json?: boolean;
}
export interface ListFlags extends RunsFlags {
  readonly status?: string;
  readonly workflow?: string;
  readonly kind?: string;
  readonly user?: string;
  readonly limit?: string;
}

export interface ShowFlags extends RunsFlags {
  readonly under?: string;
  readonly status?: string;
}

/** Prints the newest executions. */
export async function listRuns(flags: ListFlags): Promise<void> {
  const { workflow, kind, user } = flags;
  const filter = { statuses: toStatuses(flags.status), workflow, kind, user, limit: toLimit(flags.limit) };
  if (flags.data !== undefined && kind !== undefined)
    throw new UsageError("--kind works only with a running server, not with --data");
  await withRuns(flags, async (source) => {
    const runs = await source.list(filter);
    if (flags.json) return printJson(runs);
    if (runs.length === 0) return printNote("no executions found");
    toListLines(runs, Date.now()).forEach(print);
    const shown = runs.find(({ status }) => status === "error") ?? runs[0]!;
    printNote(`show one with: npx agentserve runs show ${toWord(shown.executionId)}${source.flag}`);
  });
}

/** Prints one execution and its steps. */
export async function showRun(id: string, flags: ShowFlags): Promise<void> {
  const filter = { under: flags.under, status: toStepStatus(flags.status) };
  await withRuns(flags, async (source) => {
    const run = await findRun(source, id);
    const state = await source.state(run);
    if (!state) throw new UserError(`Execution ${toVisible(run.executionId)} not found`);
    const steps = await source.steps(run, filter);
    if (flags.json) return printJson({ ...state, steps });
    toRunLines(state, steps).forEach(print);
    if (steps.length === 0 && (filter.under ?? filter.status) !== undefined) printNote("no steps match the filter");
    const next = toNext(state, flags.data !== undefined);
    if (next) printNote(`${next}${source.flag}`);
  });
}

/** Cancels an execution, of a server or in a data file. */
export async function cancelInFile(id: string, flags: RunsFlags & { data: string; reason?: string }): Promise<void> {
  await withFile(flags.data, async (source) => {
    const { executionId } = await findRun(source, id);
    if (!source.cancel(executionId, flags.reason ?? "Cancelled by the operator"))
      throw new UserError(`Execution ${toVisible(executionId)} has already ended`);
    print(`execution ${toVisible(executionId)} cancelled`);
  });
}

/** The command that a person would run next. */
function toNext({ status, executionId, error, suspension }: ExecutionView, isFile: boolean): string | undefined {
  const id = toWord(executionId);
  if (isFile) return status === "running" ? `cancel it with: npx agentserve runs cancel ${id}` : undefined;
  const isAnswered = status === "suspended" && (!suspension || needsAnswer(suspension));
  if (isAnswered) return `resume it with: npx agentserve runs resume ${id} '<json>'`;
  if (status === "error" && error !== undefined) return `retry it with: npx agentserve runs retry ${id}`;
  const isOpen = status === "running" || status === "suspended";
  return isOpen ? `cancel it with: npx agentserve runs cancel ${id}` : undefined;
}

async function withRuns(flags: RunsFlags, run: (source: RunSource) => Promise<void>): Promise<void> {
  if (flags.data === undefined) return run(openServerRuns(flags));
  await withFile(flags.data, run);
}

async function withFile(file: string, run: (source: FileRuns) => Promise<void>): Promise<void> {
  const source = openFileRuns(file);
  try {
    await run(source);
  } finally {
    source.close();
  }
  await leave();
}

function toStatuses(text: string | undefined): readonly ExecutionStatus[] | undefined {
  if (text === undefined) return undefined;
  const statuses = text.split(",").map((word) => executionStatuses.find((one) => one === word));
  if (statuses.every((one) => one !== undefined)) return statuses;
  throw new UsageError(`--status: expected one of ${executionStatuses.join(", ")}, found ${JSON.stringify(text)}`);
}

function toStepStatus(text: string | undefined): StepStatus | undefined {
  const status = stepStatuses.find((one) => one === text);
  if (text === undefined || status) return status;
  throw new UsageError(`--status: expected one of ${stepStatuses.join(", ")}, found ${JSON.stringify(text)}`);
}

function toLimit(text = "50"): number {
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= 10_000) return limit;
  throw new UsageError(`--limit: expected a number from 1 to 10000, found ${JSON.stringify(text)}`);
}

const toWord = (id: string): string => toShellWord(toVisible(id));
