import { idRule, isExecutionId, isId, newId } from "../../core/id.ts";
import type { JsonSchema } from "../../core/schemas/json-schema.ts";
import { UserError } from "../../core/user-error.ts";
import { toVisible } from "../../core/terminal/visible.ts";
import { exitCodes } from "../fail.ts";
import { UsageError } from "../usage.ts";
import { InterruptError, interruptible, parseJson, readInput, withKnownIds, type Call } from "./call.ts";
import { toLeaveLines, toResumeLines, toShape, toWaitLines } from "./commands.ts";
import type { ServerEvent } from "./events.ts";
import { Execution } from "./execution.ts";
import { RefusalError } from "./failure.ts";
import { fillForm } from "./form.ts";
import { WorkflowLines } from "./lines.ts";
import { CancelError } from "./prompt.ts";
import { dim, toShort, toShortId } from "./screen.ts";
import { findResumeSchema, resume, toPendingStep, type PendingStep } from "./suspension.ts";
import { needsAnswer } from "./wait-text.ts";

const maxRounds = 1_000;

/** Runs a workflow until it ends. Prints its events and asks for the answers that it waits for. */
export async function callWorkflow(call: Call): Promise<void> {
  const { id: workflowId, flags, client, screen } = call;
  // One that exists may have a longer id, given by the server.
  const isValid = call.input === undefined ? isExecutionId : isId;
  if (flags.execution !== undefined && !isValid(flags.execution))
    throw new UsageError(`--execution: expected ${idRule}`);
  const given = flags.resume === undefined ? [] : [parseJson(flags.resume, "--resume")];
  const execution = new Execution({
    client,
    workflowId,
    // Generated here, so that the id is known if the connection is lost before the first response.
    id: flags.execution ?? newId(),
    report: (line) => screen.printNote(dim(line)),
  });
  const lines = new WorkflowLines(screen);
  const show = async (events: AsyncIterable<ServerEvent>): Promise<ServerEvent> => {
    let last: ServerEvent | undefined;
    for await (const event of events) {
      await screen.event(event);
      await lines.show(event);
      last = event;
    }
    screen.endLine();
    return last!; // `follow` ends with the result, or throws
  };
  const attach = (signal: AbortSignal) => execution.attach(signal);
  const run = (open: typeof attach) => interruptible((signal) => show(execution.follow(open, signal)));

  try {
    let result = await begin(call, execution, run);
    for (let rounds = 0; result["status"] === "suspended" && rounds < maxRounds; rounds++) {
      const pending = toPendingStep(result["suspension"]);
      if (!needsAnswer(pending)) {
        for (const line of toWaitLines(execution, pending, client.target)) screen.printNote(line);
        process.exitCode = exitCodes.suspended;
        return;
      }
      if (!(await answer(call, execution, pending, given))) {
        process.exitCode = exitCodes.suspended;
        return;
      }
      result = await run(attach);
    }
    if (result["status"] !== "completed") throw toFailure(result);
    await screen.result(result["result"]);
  } catch (error) {
    if (!(error instanceof InterruptError)) throw error;
    screen.endLine();
    for (const line of toLeaveLines(execution, client.target)) screen.printNote(line);
    process.exitCode = exitCodes.failed;
  }
}

type Run = (open: (signal: AbortSignal) => Promise<AsyncGenerator<ServerEvent>>) => Promise<ServerEvent>;

/** Starts the execution. Without an input, follows it from the first event if it already exists. */
async function begin({ id, input, flags, client, screen }: Call, execution: Execution, run: Run): Promise<ServerEvent> {
  if (input === undefined && flags.execution !== undefined) {
    const found = await run((signal) => execution.attach(signal)).catch((error: unknown) => {
      if (!(error instanceof RefusalError && error.status === 404)) throw error;
    });
    if (found) return found;
  }
  try {
    const text = await readInput(input);
    const sent =
      text === undefined
        ? screen.canAsk
          ? await askInput(await client.get(`/workflows/${id}`))
          : {}
        : parseJson(text, "<input>");
    return await run((signal) => execution.begin(sent, flags.conversation, signal));
  } catch (error) {
    if (error instanceof RefusalError && error.status === 409) {
      throw new RefusalError(409, error.message, "to follow an existing execution, pass --execution without an input");
    }
    if (error instanceof RefusalError && error.status === 400) {
      const detail = (await client.get(`/workflows/${id}`).catch(() => undefined)) as
        | { inputSchema?: unknown }
        | undefined;
      throw new RefusalError(400, error.message, `expected input: ${toVisible(toShape(detail?.inputSchema))}`);
    }
    throw await withKnownIds(error, client, "workflows", id);
  }
}

async function askInput(detail: unknown): Promise<unknown> {
  const { inputSchema } = (detail ?? {}) as { inputSchema?: unknown };
  return (await fillForm(inputSchema, "input", false)) ?? {};
}

/** Sends the answer from `--resume` or a prompt. Returns false if there is none. */
async function answer(call: Call, execution: Execution, pending: PendingStep, given: unknown[]): Promise<boolean> {
  const { id, client, screen } = call;
  const hand = (data: unknown) => interruptible((signal) => resume(client, execution, pending, data, signal));
  const sayHow = (schema: JsonSchema | undefined): void => {
    for (const line of toResumeLines(execution, pending, schema, client.target)) screen.printNote(line);
  };
  if (given.length > 0) {
    const refused = await hand(given.shift());
    if (!refused) return true;
    if (!screen.canAsk || refused.status !== 400) {
      sayHow(await findResumeSchema(client, id, pending.stepId));
      throw refused;
    }
    screen.line(refused.message);
  }
  const schema = await findResumeSchema(client, id, pending.stepId);
  try {
    for (let tries = 0; screen.canAsk && tries < 20; tries++) {
      const refused = await hand(await fillForm(schema, `answer for ${pending.stepId}`, schema !== undefined));
      if (!refused) return true;
      if (refused.status !== 400) throw refused;
      screen.line(refused.message);
    }
  } catch (error) {
    if (!(error instanceof CancelError)) throw error;
  }
  sayHow(schema);
  return false;
}

function toFailure({ status, error, cancellation, executionId }: ServerEvent): UserError {
  const { reason } = (cancellation ?? {}) as { reason?: unknown };
  const why = cancellation ? `was cancelled: ${toShort(reason, 2_000)}` : `failed: ${toShort(error ?? status, 2_000)}`;
  return new UserError(`The workflow ${why}`, { hint: `execution ${toShortId(executionId)}` });
}
