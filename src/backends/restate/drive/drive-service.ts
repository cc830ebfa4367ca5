import type { ObjectContext } from "@restatedev/restate-sdk";
import { findMismatch } from "../../../engine/compare-steps.ts";
import type { Program } from "../../../engine/contract/program.ts";
import { toTransitionEvents } from "../../../engine/events.ts";
import type { Execution } from "../../../engine/execution.ts";
import { findTakes } from "../../../engine/runs/find-takes.ts";
import { toCommandRow } from "../../../engine/runs/journal-row.ts";
import { objectOptions, type ObjectService } from "../calls.ts";
import { Drive } from "./drive.ts";
import { runCopy } from "./drive-copy.ts";
import type { Replica, ReplicaServiceParts } from "../replica.ts";
import { runRescue } from "./drive-rescue.ts";
import type { AcceptInput, Command, DriveInput, TakeInput } from "../register/register-state.ts";
import { replay } from "./replay-rows.ts";
import { markMismatch } from "./replaying.ts";
import { createSoloHandlers, rescueSolo } from "../former/solo.ts";
import {
  loadRows,
  openRows,
  readPage,
  startedIn,
  toRowKey,
  toShortPage,
  type RowPage,
  type StoredRow,
} from "./rows.ts";

/** The object that has the rows of an execution, and runs its drives. */
export function createDriveService(parts: ReplicaServiceParts): ObjectService {
  const { sdk, calls, host, object, reads } = parts;

  /** Stores the row of a transition that a killed drive has made. Returns the number of rows. */
  async function finish(context: ObjectContext, epoch: number): Promise<number> {
    const { count, added } = await openRows(context, epoch);
    if (added) host.publish(context.key, added, []);
    return count;
  }

  // The rows of an execution may be larger than a message to its handler.
  const options = { ...objectOptions, enableLazyState: true };
  return object("drive", options, {
    // A step may run for as long as its own time limit allows.
    run: sdk.handlers.object.exclusive(
      { inactivityTimeout: { days: 365 }, abortTimeout: { minutes: 1 }, hooks: [markMismatch] },
      (context, input: DriveInput): Promise<void> => {
        const { cause, copies, isSolo } = input;
        if (isSolo) return rescueSolo(context, host.interruptions, input);
        if (copies) return runCopy(context, parts, { ...input, copies });
        return cause ? runRescue(context, parts, { ...input, cause }) : Drive.run(context, parts, input);
      },
    ),

    /** Stores a transition of an execution that has no drive. */
    note: async (context, { epoch, next }: Command): Promise<void> => {
      const number = await finish(context, epoch - 1);
      const last = await context.get<StoredRow>(toRowKey(number - 1));
      const events = toTransitionEvents([next]);
      const seq = (last?.seq ?? 0) + events.length;
      const row = toCommandRow(number, epoch, next);
      const stored: StoredRow = { number, row, at: next.at, seq, events, status: next.to, epoch };
      context.set(toRowKey(number), stored);
      host.publish(context.key, stored, []);
    },

    /** Looks for the events that a suspended execution takes. */
    accept: async (context, { execution, epoch }: AcceptInput): Promise<void> => {
      const program = await host.programs.find(execution); // rejects on a replica that may not run it
      const rows = await loadRows(context, host, { id: context.key, epoch });
      const found = await context.run("accept", () => accept(host, execution, rows, program));
      calls.tell(context, "register/take", { epoch, ...found } satisfies TakeInput);
    },

    finish: async (context, epoch: number): Promise<void> => void (await finish(context, epoch)),

    clear: async (context): Promise<void> => context.clearAll(),

    rows: reads((context, from: number): Promise<RowPage> => readPage({ sdk, context }, from)),

    shortRows: reads(async (context, from: number): Promise<RowPage> =>
      toShortPage(await readPage({ sdk, context }, from)),
    ),

    row: reads((context, number: number): Promise<StoredRow | null> => context.get(toRowKey(number))),

    ...createSoloHandlers(parts),
  });
}

/** Finds the events that a suspended execution takes. No step runs. */
async function accept(
  { mailboxes }: Replica,
  execution: Execution,
  rows: readonly StoredRow[],
  program: Program | undefined,
): Promise<Omit<TakeInput, "epoch">> {
  if (!program || findMismatch(execution.steps, program.steps, startedIn(rows)) !== undefined) return changed();
  const { run, walk, difference } = await replay(execution, rows, [], program);
  try {
    if (difference !== undefined) return changed();
    const recipient = { execution, walk, hasTaken: (id: string) => run.hasTaken(id) };
    const { takes } = await findTakes(mailboxes.readerOf(execution), recipient); // the drive looks for more
    return { at: Date.now(), takes };
  } finally {
    walk.release("Only its journal was read");
  }
}

const changed = (): Omit<TakeInput, "epoch"> => ({ at: Date.now(), takes: [], isChanged: true });
