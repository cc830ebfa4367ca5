import type { ObjectContext, ObjectSharedContext, VirtualObjectDefinition } from "@restatedev/restate-sdk";
import { toTransitionEvent } from "../../engine/events.ts";
import { toCommandRow } from "../../engine/runs/journal-row.ts";
import { reading } from "./calls.ts";
import { Drive, type DriveParts } from "./drive.ts";
import type { Command, DriveInput } from "./register-state.ts";
import { readRows, toRowKey, type StoredRow } from "./rows.ts";

/** A page of rows, and the last row of all. */
export interface RowPage {
  readonly rows: readonly StoredRow[];
  readonly last: StoredRow | undefined;
}

/** The object that has the rows of an execution, and runs its drives. */
export function createDriveService(parts: DriveParts): VirtualObjectDefinition<string, unknown> {
  const { sdk, names } = parts;
  const { exclusive, shared } = sdk.handlers.object;

  return sdk.object({
    name: names.drive,
    options: {
      journalRetention: 0,
      idempotencyRetention: 0,
      retryPolicy: { initialInterval: 50, maxInterval: 1000, exponentiationFactor: 2, maxAttempts: 2 ** 31 },
    },
    handlers: {
      // A step may run for as long as its own time limit allows.
      run: exclusive(
        { inactivityTimeout: { days: 365 }, abortTimeout: { minutes: 1 } },
        async (context: ObjectContext, input: DriveInput): Promise<void> => new Drive(context, parts, input).run(),
      ),

      /** Stores a transition of an execution that has no drive. */
      note: exclusive({ enableLazyState: true }, async (context: ObjectContext, command: Command): Promise<void> => {
        const { epoch, next } = command;
        const last = await readLast(context);
        const number = (last?.number ?? -1) + 1;
        const events = [toTransitionEvent(next)];
        const seq = (last?.seq ?? 0) + events.length;
        const row = toCommandRow(number, epoch, next);
        const stored: StoredRow = { number, row, at: next.at, seq, events, status: next.to, epoch };
        context.set(toRowKey(number), stored);
        parts.host.publish(context.key, stored, []);
      }),

      clear: async (context: ObjectContext): Promise<void> => context.clearAll(),

      rows: shared(
        { ...reading, enableLazyState: true },
        async (context: ObjectSharedContext, from: number): Promise<RowPage> => {
          const rows = await readRows(sdk, context, from);
          return { rows, last: await readLast(context) };
        },
      ),
    },
  });
}

async function readLast(context: ObjectSharedContext): Promise<StoredRow | undefined> {
  const key = (await context.stateKeys()).toSorted().at(-1);
  return key === undefined ? undefined : ((await context.get<StoredRow>(key)) ?? undefined);
}
