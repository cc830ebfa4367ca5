import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Program } from "../../../engine/contract/program.ts";
import type { Execution } from "../../../engine/execution.ts";
import { shortHandlers, type Calls, type ObjectService, type ServiceParts } from "../calls.ts";

/** Max executions of one key that wait: each of them has a drive. */
const maxWaiting = 1_000;

/** The `concurrency` of a workflow. */
export interface GroupLimits {
  readonly limit: number;
  /** Max executions that wait. */
  readonly waiting: number;
  /** True for a wait that is over: it is never refused, and knows an earlier number of places. */
  readonly isWake?: boolean | undefined;
}
export const toGroupLimits = (
  { concurrency }: Program,
  { waitingExecutions }: { waitingExecutions: number },
): GroupLimits | undefined =>
  concurrency && { limit: concurrency.limit, waiting: Math.min(maxWaiting, waitingExecutions) };

/** The answer to a waiting drive. `again`: another one waits for the same execution. */
export type PlaceNews = "inside" | "missing" | "again";

/** An execution and the epoch in which it runs, or in which it no longer runs. */
interface LeaveInput {
  readonly id: string;
  readonly epoch: number;
}
type EnterInput = GroupLimits & LeaveInput;
interface WatchInput {
  readonly id: string;
  readonly awakeable: string;
}

/** The state key `group`. The executions that wait are in keys of their own (`toEntryKey`). */
interface StoredGroup {
  readonly limit: number;
  /** The executions that have a place. */
  readonly inside: readonly LeaveInput[];
  /** The numbers of the first entry and the next one. */
  readonly head: number;
  readonly tail: number;
  /** The number of waiting executions. The line has no entry for an execution that left it. */
  readonly count: number;
}
interface GroupEntry extends LeaveInput {
  /** Resolved when the execution has a place. */
  readonly awakeable?: string | undefined;
}

const empty: StoredGroup = { limit: 1, inside: [], head: 0, tail: 0, count: 0 };
const toEntryKey = (number: number): string => `e${number}`;
/** The key of a waiting execution's number. */
const toNumberKey = (id: string): string => `n${id}`;

/**
 * The object of a workflow's concurrency key: a semaphore with a line, for all replicas.
 *
 * Q1. Executions enter and leave by their registers: a drive that is killed keeps the place of its execution.
 * Q2. A leave may come after the next enter of the same execution. The epochs tell them apart.
 * Q3. Each change reads and writes the same number of keys, however many executions wait.
 */
export function createGroup({ object }: ServiceParts): ObjectService {
  return object("group", shortHandlers, {
    /** Puts an execution at the end of the line. Resolves to false if too many wait. */
    async enter(context, { id, epoch, waiting, isWake, ...input }: EnterInput): Promise<boolean> {
      const found = await read(context);
      const limit = isWake && found !== empty ? found.limit : input.limit;
      const group = { ...(await remove(context, found, { id, epoch })), limit };
      const isFull = !isWake && group.count >= waiting && group.inside.length >= limit;
      if (!isFull) {
        context.set<GroupEntry>(toEntryKey(group.tail), { id, epoch });
        context.set(toNumberKey(id), group.tail);
      }
      const added = isFull ? group : { ...group, tail: group.tail + 1, count: group.count + 1 };
      await settle(context, added);
      return !isFull;
    },

    async leave(context, input: LeaveInput): Promise<void> {
      await settle(context, await remove(context, await read(context), input));
    },

    /** Resolves an awakeable when the execution has a place, or is not in the group. */
    async watch(context, { id, awakeable }: WatchInput): Promise<void> {
      const { inside } = await read(context);
      if (inside.some((one) => one.id === id)) return tell(context, { awakeable }, "inside");
      const number = await context.get<number>(toNumberKey(id));
      const entry = number === null ? null : await context.get<GroupEntry>(toEntryKey(number));
      if (number === null || !entry) return tell(context, { awakeable }, "missing");
      tell(context, entry, "again");
      context.set<GroupEntry>(toEntryKey(number), { ...entry, awakeable });
    },
  });
}

/** Gives free places to the first executions of the line. */
async function settle(context: ObjectContext, group: StoredGroup): Promise<void> {
  const inside = [...group.inside];
  let { head, tail, count } = group;
  for (; inside.length < group.limit && count > 0 && head < tail; head++) {
    const entry = await context.get<GroupEntry>(toEntryKey(head));
    if (!entry) continue; // left the line
    context.clear(toEntryKey(head));
    context.clear(toNumberKey(entry.id));
    count--;
    inside.push({ id: entry.id, epoch: entry.epoch });
    tell(context, entry, "inside");
  }
  if (count === 0) head = tail = 0;
  if (inside.length + count === 0) context.clear("group");
  else context.set<StoredGroup>("group", { ...group, inside, head, tail, count });
}

/** Removes an execution, if its place is of an earlier epoch. */
async function remove(context: ObjectContext, group: StoredGroup, { id, epoch }: LeaveInput): Promise<StoredGroup> {
  const inside = group.inside.filter((one) => one.id !== id || one.epoch >= epoch);
  const number = await context.get<number>(toNumberKey(id));
  const entry = number === null ? null : await context.get<GroupEntry>(toEntryKey(number));
  if (number === null || !entry || entry.epoch >= epoch) return { ...group, inside };
  tell(context, entry, "missing");
  context.clear(toEntryKey(number));
  context.clear(toNumberKey(id));
  return { ...group, inside, count: group.count - 1 };
}

function tell(context: ObjectContext, { awakeable }: Pick<GroupEntry, "awakeable">, news: PlaceNews): void {
  if (awakeable !== undefined) context.resolveAwakeable(awakeable, news);
}
const read = async (context: ObjectContext): Promise<StoredGroup> => (await context.get<StoredGroup>("group")) ?? empty;

/** The key of a group's object. */
export const toGroupKey = ({ workflowId, concurrencyKey = "" }: Execution): string => `${workflowId} ${concurrencyKey}`;

/** Lets an execution enter its group, from its register. Resolves to false if too many wait. */
export async function enterGroup(
  calls: Calls,
  context: ObjectContext,
  execution: Execution,
  epoch: number,
  limits: GroupLimits | undefined,
): Promise<boolean> {
  if (execution.concurrencyKey === undefined || !limits) return true;
  const input: EnterInput = { id: execution.id, epoch, ...limits };
  return calls.call<boolean>(context, "group/enter", input, { key: toGroupKey(execution) });
}
export function leaveGroup(calls: Calls, context: ObjectContext, execution: Execution, epoch: number): void {
  if (execution.concurrencyKey === undefined) return;
  const input: LeaveInput = { id: execution.id, epoch };
  calls.tell(context, "group/leave", input, { key: toGroupKey(execution) });
}
