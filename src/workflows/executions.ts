import type { Identity } from "../core/caller.ts";
import { badRequest, ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import { toJsonText, type JsonText } from "../core/json.ts";
import { validate, type Schema } from "../core/schema.ts";
import { currentSpan } from "../core/trace.ts";
import { applyIdentity, type CallContext, type Claims } from "../core/caller.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import { findMismatch, hasSameSteps, toChangeReason } from "../engine/compare-steps.ts";
import type { StartResult, Engine } from "../engine/contract/engine.ts";
import type { Program } from "../engine/contract/program.ts";
import type { Execution, ExecutionState } from "../engine/execution.ts";

/** A workflow of a snapshot that can be executed. */
export interface Runnable extends Program {
  readonly definition: WorkflowDefinition;
}
export interface BeginOptions extends Claims {
  readonly executionId?: string | undefined;
  /** True if the id is a new one of this server: no execution has it. @default true without an id */
  readonly isFresh?: boolean | undefined;
}
interface StartOptions extends BeginOptions {
  /** @default a request */
  readonly origin?: Origin | undefined;
}

/** Starts an execution. The request is validated first. Once started, the execution continues even if the request ends. */
export async function begin(
  engine: Engine,
  runnable: Runnable,
  input: unknown,
  options: StartOptions = {},
  identity: Identity,
): Promise<StartedExecution> {
  const execution = await prepare(engine, runnable, input, options, identity);
  const { isFresh = options.executionId === undefined } = options;
  return checkStarted(execution, await engine.begin(execution, runnable, { isFresh }));
}

/** Validates a request. Returns the execution that it starts. */
export async function prepare(
  engine: Engine,
  runnable: Runnable,
  input: unknown,
  { executionId: id = newId(), origin, ...claims }: StartOptions,
  identity: Identity,
): Promise<Execution> {
  const text = await checkInput(runnable.definition.inputSchema, input);
  return toExecution(engine, runnable, { id, input: text, call: applyIdentity(claims, identity), ...origin });
}

/** A started execution. It may wait for its turn. */
export type StartedExecution = Execution & Pick<StartResult, "isWaiting">;

/** Returns the execution, or throws a 409 if there was one with its id. */
export function checkStarted(execution: Execution, { created, isWaiting }: StartResult): StartedExecution {
  if (!created) throw new ServeError(409, `Execution ${execution.id} already exists`);
  return isWaiting ? { ...execution, isWaiting } : execution;
}

/** The code that starts an execution: a step of another one, or the server itself. */
export type Origin = Pick<Execution, "parent" | "begunBy">;

interface ExecutionParts extends Pick<Execution, "id" | "input" | "fork">, Origin {
  readonly call: CallContext;
}
/** Returns an execution that starts now. */
export function toExecution(
  engine: Engine,
  { definition, steps, concurrency }: Runnable,
  { call, ...parts }: ExecutionParts,
): Execution {
  return {
    ...parts,
    workflowId: definition.id,
    ...call,
    ...(concurrency && { concurrencyKey: concurrency.toKey(parts.input, call) }),
    trace: currentSpan(),
    startAt: engine.clock.now(),
    steps,
  };
}

export async function checkInput(schema: Schema | undefined, input: unknown): Promise<JsonText> {
  if (input === undefined) throw invalidInput("input is required");
  if (!schema && (typeof input !== "object" || input === null || Array.isArray(input)))
    throw invalidInput("expected an object");
  const result = schema ? await validate(schema, input) : { value: input };
  if ("problem" in result) throw invalidInput(result.problem);
  return toText(result.value, "input", invalidInput) ?? "null";
}

export async function suspend(
  engine: Engine,
  state: ExecutionState,
  reason = "Suspended by request",
): Promise<ExecutionState> {
  const { id } = state.execution;
  const suspended = await engine.suspend(id, reason);
  if (!suspended) throw badRequest(`Execution ${id} is not running`);
  return suspended;
}

export async function cancel(
  engine: Engine,
  state: ExecutionState,
  reason = "Cancelled by request",
): Promise<ExecutionState> {
  const { id } = state.execution;
  if (typeof reason !== "string") throw badRequest("reason: expected a text");
  const cancelled = await engine.cancel(id, reason);
  if (!cancelled) throw badRequest(`Execution ${id} has already ended`);
  return cancelled;
}

/** Rejects a resume or a retry if the workflow has changed. The steps that have started must still exist, in the same order. */
export async function checkCode(engine: Engine, { steps }: Runnable, execution: Execution): Promise<void> {
  if (hasSameSteps(execution.steps, steps)) return;
  const started = await engine.startedSteps(execution.id);
  const change = started && findMismatch(execution.steps, steps, started);
  if (change) throw new ServeError(409, toChangeReason(change));
}

const invalidInput = (detail: string): ServeError => badRequest(`Input validation failed: ${detail}`);

export function toText(value: unknown, what: string, fail: (detail: string) => ServeError): JsonText | undefined {
  try {
    return toJsonText(value, what);
  } catch (error) {
    throw error instanceof TypeError ? fail(error.message) : error;
  }
}
