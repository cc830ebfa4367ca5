import type { ObjectContext } from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, Transition } from "../../../engine/execution.ts";
import type { DriveHost } from "../drive/drive-host.ts";
import { toRowKey, type StoredRow } from "../drive/rows.ts";
import type { DriveInput } from "../register/register-state.ts";

/**
 * Executions that an earlier version began *solo*: without a register. Their state is the key `solo` of their drive's object.
 *
 * S1. The ingress started the drive of such an execution, so it may end without asking a register. Its drive got a register
 *     for it when it was suspended, handed over, or was asked by the awakeable `summons`.
 * S2. A replica of that version may still run such a drive. Here its start or repetition is ended before its first call, and
 *     rescued: the register is made, and another drive continues from the rows.
 * S3. The key is cleared after the register exists. Readers ask the register first, then the drive, then the register again.
 */
export interface Solo {
  readonly execution: Execution;
  readonly summons: string;
  /** The end. Undefined while it runs. */
  readonly last?: Transition | undefined;
}
/** As it is stored. The row of the end is part of it, so that a kill cannot lose it. */
interface StoredSolo extends Solo {
  readonly row?: StoredRow | undefined;
}

const soloKey = "solo";
type Reading = Pick<ObjectContext, "get">;
export async function readSolo(context: Reading): Promise<Solo | null> {
  const solo = await context.get<StoredSolo>(soloKey);
  return solo && { execution: solo.execution, summons: solo.summons, last: solo.last };
}
/** Stores the row of an end whose drive was killed before it had done so. */
export async function finishSolo(context: ObjectContext): Promise<StoredRow | undefined> {
  const { row } = (await context.get<StoredSolo>(soloKey)) ?? {};
  if (row) context.set(toRowKey(row.number), row);
  return row;
}

export const toSoloState = ({ execution, last }: Solo): ExecutionState =>
  last ? { execution, status: last.to, epoch: 1, last } : { execution, status: "running", epoch: 0, last };

/** Ends an attempt of a solo drive (S2). Another drive continues. */
export async function rescueSolo(context: ObjectContext, host: DriveHost, { execution }: DriveInput): Promise<never> {
  const gone = context.request().id as unknown as string; // an id is a text with a brand
  host.rescue({ gone, cause: "code", solo: execution }, execution.id);
  throw new Error(`An earlier version began execution ${execution.id}: another drive continues it`);
}

/** The execution has a register (S3). The clears are the first calls of its drives. */
export function forgetSolo(context: ObjectContext, { wasSolo }: Pick<DriveInput, "wasSolo">): void {
  if (!wasSolo) return;
  context.clear(soloKey);
  context.clear("index");
}
