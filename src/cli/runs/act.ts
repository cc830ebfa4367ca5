import { toShellWord } from "../../core/terminal/shell.ts";
import { toObject } from "../../core/json.ts";
import { toVisible, toVisibleJson } from "../../core/terminal/visible.ts";
import { InterruptError, interruptible, parseJson, readInput } from "../call/call.ts";
import { RefusalError } from "../call/failure.ts";
import { toShort, toShortId } from "../call/screen.ts";
import { needsAnswer, toWaitText } from "../call/wait-text.ts";
import { colors } from "../colors.ts";
import { exitCodes } from "../fail.ts";
import { UsageError } from "../usage.ts";
import { openServerRuns, toPath, type ServerRuns } from "./server-runs.ts";
import { cancelInFile, type RunsFlags } from "./runs.ts";
import { findRun } from "./source.ts";

export interface ActFlags extends RunsFlags {
  readonly reason?: string;
  readonly step?: string;
  readonly from?: string;
  readonly input?: string;
}

export async function retryRun(id: string, flags: ActFlags): Promise<void> {
  await act("retry", id, flags, {});
}

export async function cancelRun(id: string, flags: ActFlags): Promise<void> {
  const { data } = flags;
  if (data !== undefined) return cancelInFile(id, { ...flags, data });
  await act("cancel", id, flags, flags.reason === undefined ? {} : { reason: flags.reason });
}

/** Resumes a suspended execution with the data of an argument, or of stdin if it is `-`. */
export async function resumeRun(id: string, given: string | undefined, flags: ActFlags): Promise<void> {
  const text = await readInput(given);
  const resumeData = text === undefined ? {} : { resumeData: parseJson(text, "<data>") };
  await act("resume", id, flags, {
    ...resumeData,
    ...(flags.step !== undefined && { options: { stepId: flags.step } }),
  });
}

export async function forkRun(id: string, flags: ActFlags): Promise<void> {
  const { from: fromStep, input } = flags;
  if (fromStep !== undefined && input !== undefined)
    throw new UsageError("--input works only without --from: the fork then begins with the first step");
  const body = {
    ...(fromStep !== undefined && { fromStep }),
    ...(input !== undefined && { input: parseJson(input, "--input") }),
  };
  await act("fork", id, flags, body);
}

type Action = "retry" | "cancel" | "resume" | "fork";

/** Sends a command about an execution, waits until it ends or suspends, and prints the outcome. */
async function act(action: Action, id: string, flags: ActFlags, body: object): Promise<void> {
  if (flags.data !== undefined)
    throw new UsageError(`runs ${action} needs a running server: it does not work with --data`);
  const source = openServerRuns(flags);
  const run = await findRun(source, id);
  try {
    const sent = (signal: AbortSignal): Promise<unknown> =>
      source.client.post(`${toPath(run)}/${action}`, { body, signal });
    const outcome = toObject(await interruptible(sent));
    if (flags.json) process.stdout.write(`${toVisibleJson(JSON.stringify(outcome, null, 2))}\n`);
    else report(outcome, source);
    if (outcome["status"] === "suspended") process.exitCode = exitCodes.suspended;
  } catch (error) {
    throw toFailure(error, run.executionId, source);
  }
}

function report(outcome: Record<string, unknown>, { flag }: ServerRuns): void {
  const { executionId, status, result, suspension, cancellation } = outcome;
  const id = toShortId(executionId);
  process.stdout.write(`execution ${id} ${cancellation ? "cancelled" : toShort(status, 20)}\n`);
  if (status === "completed") process.stdout.write(`${toVisibleJson(JSON.stringify(result ?? null, null, 2))}\n`);
  if (status !== "suspended") return;
  const { stepId, ...wait } = toObject(suspension);
  process.stdout.write(`${toShort(stepId, 200)} ${toWaitText(wait)}\n`);
  if (!needsAnswer(wait)) return;
  process.stderr.write(
    `${colors.dim(`resume it with: npx agentserve runs resume ${toShellWord(id)} '<json>'${flag}`)}\n`,
  );
}

function toFailure(error: unknown, executionId: string, { flag }: ServerRuns): unknown {
  const show = `npx agentserve runs show ${toShellWord(toVisible(executionId))}${flag}`;
  if (error instanceof InterruptError)
    return Object.assign(error, { hint: `the execution continues on the server; see it with: ${show}` });
  if (!(error instanceof RefusalError) || error.status === 401 || error.status === 503) return error;
  return new RefusalError(error.status, error.message, `see the execution with: ${show}`);
}
