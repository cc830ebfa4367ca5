import { createHash } from "node:crypto";
import type { CallContext } from "../core/caller.ts";
import { ServeError } from "../core/error.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { StepCaller } from "../engine/runtime.ts";
import { checkInput, toExecution, type Origin, type Runnable } from "./executions.ts";

/** A child of a step, and the input with which it starts. */
export interface ChildStart {
  readonly name: string;
  readonly runnable: Runnable;
  readonly input: unknown;
  readonly call: CallContext;
  /** True if a cancel of the parent cancels it. */
  readonly cancels: boolean;
}

/**
 * Starts a child of a step, and returns its id. A step that runs again, after a crash or a retry, finds its child in
 * any status. Throws a 409 if that child has another workflow, user or input.
 */
export async function beginChild(
  engine: Engine,
  step: StepIdentity,
  { name, runnable, input, call, cancels }: ChildStart,
): Promise<string> {
  const id = toOwnId("child", step, name);
  const text = await checkInput(runnable.definition.inputSchema, input);
  const origin = toOrigin(step, call, cancels);
  const execution = toExecution(engine, runnable, { id, input: text, call, ...origin });
  const { created } = await engine.begin(execution, runnable);
  if (created) return id;
  const known = (await engine.state(id))?.execution;
  const isSame = known?.workflowId === execution.workflowId;
  if (isSame && known.userId === execution.userId && known.input === text) return id;
  const other = !isSame ? "workflow" : known.userId === execution.userId ? "input" : "user";
  throw new ServeError(
    409,
    `This step has started child ${name.slice(1)} with another ${other}: give each child a key`,
  );
}

/** Starts an execution with an id that names it, unless it was started before. Its input may differ then: the first one counts. */
export async function beginOnce(
  engine: Engine,
  id: string,
  { runnable, input, call }: Pick<ChildStart, "runnable" | "input" | "call">,
  origin: Origin | undefined,
): Promise<void> {
  const text = await checkInput(runnable.definition.inputSchema, input);
  await engine.begin(toExecution(engine, runnable, { id, input: text, call, ...origin }), runnable);
}

/** Returns the origin of an execution that a step starts. It inherits `begunBy`, unless it belongs to another user. */
export function toOrigin(
  { execution }: Pick<StepCaller, "execution">,
  { userId }: Pick<CallContext, "userId">,
  cancels = false,
): Origin {
  const { id, begunBy } = execution;
  return { parent: { id, ...(cancels && { cancels }) }, ...(begunBy && userId === execution.userId && { begunBy }) };
}

type StepIdentity = Pick<StepCaller, "execution" | "idempotencyKey">;

/** Returns the id of something that a step makes: the same when the step runs again. */
export function toOwnId(
  kind: "child" | "event" | "message",
  { execution, idempotencyKey }: StepIdentity,
  name: string,
): string {
  // An execution id can be reused after retention has deleted the execution. `startAt` makes the text unique.
  const text = `${execution.startAt} ${idempotencyKey}\n${name}`;
  return `${kind}:${createHash("sha256").update(text).digest("base64url").slice(0, 22)}`;
}
