import type { ObjectContext } from "@restatedev/restate-sdk";
import { toCopiedRow } from "../../../engine/fork.ts";
import type { Copies, DriveInput } from "../register/register-state.ts";
import type { DriveParts } from "./drive-host.ts";
import { RegisterLink } from "./drive-link.ts";
import { DriveRows } from "./drive-rows.ts";
import type { RowPage, StoredRow } from "./rows.ts";

/**
 * The first drive of a fork: it stores the start, and copies the results of the original. It runs no step and needs no code, so
 * nothing can end it before. The drive that it hands over to continues from the rows, unless the fork ends at once.
 */
export async function runCopy(
  context: ObjectContext,
  { calls, names, host }: DriveParts,
  input: DriveInput & { readonly copies: Copies },
): Promise<void> {
  const { from, rows: sources, events, copied: begun, next } = input.copies;
  const link = new RegisterLink(context, { calls, names });
  const rows = new DriveRows(context, host, input);
  const target = { service: names.drive, key: from, method: "rows" };
  let page: readonly StoredRow[] = [];
  rows.store({ ...rows.toNext(undefined, events, []), copied: begun }, []);
  for (const [number, key, copied] of sources) {
    const find = (): StoredRow | undefined => page.find((one) => one.number === number);
    // In Restate's journal: the original may be removed before this drive is repeated.
    if (!find()) ({ rows: page } = await calls.call<RowPage>(context, target, number));
    const original = find()?.row;
    if (!original) return link.handOver({ cause: "original" });
    const row = { ...toCopiedRow(original), id: rows.count, key };
    const stored = { ...rows.toNext(row, [], []), copied };
    if (!next || stored.number < sources.length) {
      rows.store(stored, []);
      continue;
    }
    const end = { ...rows.toNext(row, [], [next]), at: next.at, copied, moved: true };
    const made = { stored: end, transitions: [next] };
    if (await rows.settle(link, next, { made, notMade: { stored, transitions: [] } })) return;
  }
  link.handOver();
}
