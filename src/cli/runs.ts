import { resolve } from "node:path";
import { openOffline, type OfflineStore } from "../backends/embedded/offline.ts";
import { executionStatuses, type ExecutionStatus } from "../engine/execution.ts";
import { UserError } from "../core/user-error.ts";
import { toVisible } from "../core/visible.ts";
import { toStateView } from "../workflows/results.ts";
import { colors } from "./colors.ts";
import { leave } from "./output.ts";
import { toLines } from "./table.ts";
import { UsageError } from "./usage.ts";

interface RunsFlags {
  readonly data?: string;
  readonly json?: boolean;
}

/** Prints the newest executions of a data file. */
export async function listRuns(flags: RunsFlags & { status?: string; limit?: string }): Promise<void> {
  const status = toStatus(flags.status);
  const limit = toLimit(flags.limit);
  await withStore(flags, (store) => {
    const found = store.list({ status, limit });
    if (flags.json) return printJson(found);
    const rows = found.map(({ id, workflowId, status: now, startAt, reason }) => {
      return [id, workflowId, now, new Date(startAt).toISOString(), reason ?? ""].map((cell) => toVisible(cell));
    });
    const [head = "", ...lines] = toLines(["execution", "workflow", "status", "started", "reason"], rows);
    for (const line of [colors.dim(head), ...lines]) print(line);
  });
}

/** Prints one execution: its state and its events. */
export async function showRun(id: string, flags: RunsFlags): Promise<void> {
  await withStore(flags, async (store) => {
    const state = store.state(id);
    if (!state) throw notFound(id);
    const events = await store.events(id);
    const view = toStateView(state, true);
    if (flags.json) return printJson({ ...view, events });
    const { input, ...facts } = view;
    for (const [name, value] of Object.entries({ ...facts, input }))
      print(`${colors.dim(name.padEnd(12))}${toVisible(typeof value === "string" ? value : JSON.stringify(value))}`);
    for (const { timestamp, type, from = "" } of events)
      print(colors.dim(`${timestamp}  `) + toVisible(`${type} ${from}`));
  });
}

/** Cancels an execution in a data file. */
export async function cancelRun(id: string, flags: RunsFlags & { reason?: string }): Promise<void> {
  await withStore(flags, (store) => {
    const state = store.state(id);
    if (!state) throw notFound(id);
    if (!store.cancel(id, flags.reason ?? "Cancelled by the operator"))
      throw new UserError(`Execution ${toVisible(id)} has already ended`);
    print(`execution ${toVisible(id)} cancelled`);
  });
}

async function withStore(
  { data = process.env["AGENTSERVE_DATA"] || ".agentserve/data.db" }: RunsFlags,
  run: (store: OfflineStore) => void | Promise<void>,
): Promise<void> {
  const store = openOffline(resolve(data));
  try {
    await run(store);
  } finally {
    store.close();
  }
  await leave();
}

function toStatus(text: string | undefined): ExecutionStatus | undefined {
  const status = executionStatuses.find((one) => one === text);
  if (text !== undefined && !status)
    throw new UsageError(`--status: expected one of ${executionStatuses.join(", ")}, found ${JSON.stringify(text)}`);
  return status;
}

function toLimit(text = "50"): number {
  const limit = Number(text);
  if (/^\d+$/.test(text) && limit >= 1 && limit <= 10_000) return limit;
  throw new UsageError(`--limit: expected a number from 1 to 10000, found ${JSON.stringify(text)}`);
}

const notFound = (id: string): UserError =>
  new UserError(`Execution ${toVisible(id)} not found`, { hint: "list the newest ones with: agentserve runs list" });
const print = (line: string): void => void process.stdout.write(`${line}\n`);
const printJson = (value: unknown): void => print(JSON.stringify(value, null, 2));
