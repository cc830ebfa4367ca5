import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, Transition } from "../../../engine/execution.ts";
import type { RegisterStatus } from "./register-state.ts";

export interface FoundExecution {
  readonly execution: Execution;
  readonly now: RegisterStatus;
}
export async function read(context: ObjectSharedContext): Promise<FoundExecution | undefined> {
  const execution = await context.get<Execution>("execution");
  const now = await context.get<RegisterStatus>("status");
  return execution && now ? { execution, now } : undefined;
}
export async function toState(context: ObjectSharedContext): Promise<ExecutionState | null> {
  const found = await read(context);
  if (!found) return null;
  const { execution, now } = found;
  const last = (await context.get<Transition>("last")) ?? undefined;
  const { status, epoch, retriedBy } = now;
  return { execution, status, epoch, last, retriedBy };
}

type Invocation = Parameters<ObjectContext["invocation"]>[0];
export const toInvocation = (id: string): Invocation => id as Invocation; // an id is a text with a brand
