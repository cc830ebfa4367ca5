import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, Transition } from "../../../engine/execution.ts";
import type { Calls, ServiceParts } from "../calls.ts";
import type { Interruptions } from "../drive/interruptions.ts";
import { toRowKey, type RowHost, type StoredRow } from "../drive/rows.ts";
import { toIndex } from "../list/list-index.ts";
import { toListed } from "../list/listed-state.ts";
import type { Moves } from "../register/moves.ts";
import {
  read,
  type DriveInput,
  type DriveRequest,
  type FoundExecution,
  type RegisterStatus,
  type RescueInput,
} from "../register/register-state.ts";

/**
 * Executions that an earlier version began *solo*: without a register. Their state is in the key `solo`
 * of the drive's object. Apart from this file, only `States` reads it. This file can be removed after their retention.
 *
 * SO1. The ingress started the drive of such an execution, so it may end without asking a register. The drive created the
 *     register when it was suspended, handed over, or was requested through the awakeable `summons`.
 * SO2. An old replica may still run such a drive. If it starts or repeats here, this version stops it before its first call,
 *     creates the register, and starts another drive from the rows.
 * SO3. The key is cleared after the register exists. Readers ask the register first, then the drive, then the register again.
 */
export interface Solo {
  readonly execution: Execution;
  readonly summons: string;
  /** The end. Undefined while it runs. */
  readonly last?: Transition | undefined;
  /** The row of the end, which a kill may have kept from being stored. */
  readonly row?: StoredRow | undefined;
}
interface AdoptInput extends Omit<DriveRequest, "epoch"> {
  readonly solo: Execution;
}
interface AdoptEndedInput {
  readonly execution: Execution;
  readonly last: Transition;
}

const soloKey = "solo";
const readSolo = (context: Pick<ObjectContext, "get">): Promise<Solo | null> => context.get<Solo>(soloKey);
export const toState = ({ execution, last }: Solo): ExecutionState =>
  last ? { execution, status: last.to, epoch: 1, last } : { execution, status: "running", epoch: 0, last };

/** Ends an attempt of a solo drive (SO2). Another drive continues. */
export async function rescueSolo(
  context: ObjectContext,
  interruptions: Interruptions,
  { execution }: DriveInput,
): Promise<never> {
  const gone = context.request().id as unknown as string; // an id is a text with a brand
  interruptions.rescue({ gone, cause: "code", solo: execution }, execution.id);
  throw new Error(`An earlier version began execution ${execution.id}: another drive continues it`);
}

/** The execution has a register (SO3). The clears are the first calls of its drives. */
export function forgetSolo(context: ObjectContext, { wasSolo }: Pick<DriveInput, "wasSolo">): void {
  if (!wasSolo) return;
  context.clear(soloKey);
  context.clear("index");
}

/** Stores the row of the end. */
async function storeEnd(context: ObjectContext): Promise<StoredRow | undefined> {
  const { row } = (await readSolo(context)) ?? {};
  if (row) context.set(toRowKey(row.number), row);
  return row;
}

type DriveHandler = (context: ObjectContext, input: unknown) => Promise<unknown>;
/** Handlers of the drive's object. */
export function createSoloHandlers({
  calls,
  reads,
  host,
}: ServiceParts & { readonly host: RowHost }): Record<string, DriveHandler> {
  return {
    finishSolo: async (context: ObjectContext): Promise<void> => {
      const row = await storeEnd(context);
      if (row) host.publish(context.key, row, []);
    },

    /** Lets an ended execution get a register. */
    registerSolo: async (context: ObjectContext): Promise<void> => {
      const { execution, last } = (await readSolo(context)) ?? {};
      if (!execution || !last) return;
      await storeEnd(context);
      await calls.call<void>(context, "register/adoptEnded", { execution, last } satisfies AdoptEndedInput);
      forgetSolo(context, { wasSolo: true });
    },

    /** The retention of an execution is over. The call was scheduled at its end. */
    expireSolo: async (context: ObjectContext): Promise<void> => {
      if ((await readSolo(context))?.last) context.clearAll();
    },

    solo: reads(async (context): Promise<Solo | null> => {
      const solo = await readSolo(context);
      return solo && { ...solo, row: undefined };
    }),

    listedSolo: reads(async (context): Promise<ExecutionState | null> => {
      const solo = await readSolo(context);
      return solo && toListed(toState(solo));
    }),
  };
}

/** Reads the register. Makes it for an execution that a solo drive hands over. */
export async function readOrAdopt(
  context: ObjectContext,
  drive: string,
  solo: Execution | undefined,
): Promise<FoundExecution | undefined> {
  const found = await read(context);
  if (found || !solo) return found;
  const now: RegisterStatus = { status: "running", epoch: 0, drive, wasSolo: true };
  context.set("execution", solo);
  context.set("index", toIndex(solo, now.status));
  context.set("status", now);
  return { execution: solo, now };
}

/** Handlers of the register. */
export function createAdoption(moves: Moves) {
  return {
    /** Makes the register of an execution on a replica with an earlier version. */
    async adopt(context: ObjectContext, { drive, solo, reply }: AdoptInput): Promise<void> {
      await readOrAdopt(context, drive, solo);
      context.resolveAwakeable(reply, true);
    },

    /** Makes the register of an ended execution. */
    async adoptEnded(context: ObjectContext, { execution, last }: AdoptEndedInput): Promise<void> {
      if (await read(context)) return;
      const now: RegisterStatus = { status: last.to, epoch: 1 };
      context.set("execution", execution);
      context.set("index", toIndex(execution, now.status));
      context.set("last", last);
      context.set("status", now);
      moves.expireLater(context, now, (await context.date.now()) - last.at);
    },
  };
}

/** Returns true if an execution ended before a rescue ended its solo drive. Its last row is stored then. */
export async function hasEndedSolo(
  context: ObjectSharedContext,
  calls: Calls,
  { solo }: RescueInput,
): Promise<boolean> {
  if (!solo) return false;
  const found = await calls.call<Solo | null>(context, "drive/solo", null);
  if (found?.last) calls.tell(context, "drive/finishSolo", null);
  return found?.last !== undefined;
}
