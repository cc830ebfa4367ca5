import type { ObjectContext } from "@restatedev/restate-sdk";
import type { JsonText } from "../../../core/json.ts";
import type { EventBody } from "../../../engine/events.ts";
import { resolveTransition, type Execution, type Transition } from "../../../engine/execution.ts";
import { toCopiedRow, type ForkSource } from "../../../engine/fork.ts";
import { textOf, type JournalRow } from "../../../engine/runs/journal-row.ts";
import { inputRow, toText } from "../../../engine/walk/value.ts";
import type { Copies, DriveInput } from "../register/register-state.ts";
import type { ReplicaServiceParts } from "../replica.ts";
import { RegisterLink } from "./drive-link.ts";
import { DriveRows } from "./drive-rows.ts";
import type { RowPage, StoredRow } from "./rows.ts";

/**
 * The first drive of a fork: it stores the start, and copies the results of the original. It runs no step and needs no code, so
 * nothing can end it before. The drive that it hands over to continues from the rows, unless the fork ends at once.
 */
export async function runCopy(
  context: ObjectContext,
  { calls, host }: ReplicaServiceParts,
  input: DriveInput & { readonly copies: Copies },
): Promise<void> {
  const { from, rows: sources, events, copied: begun, next } = input.copies;
  const link = new RegisterLink(context, calls);
  const rows = new DriveRows(context, host, input);
  let page: readonly StoredRow[] = [];
  if (await store(undefined, events, begun)) return;
  for (const [number, key, copied] of sources) {
    const find = (): StoredRow | undefined => page.find((one) => one.number === number);
    // In Restate's journal: the original may be removed before this drive is repeated.
    if (!find()) ({ rows: page } = await calls.call<RowPage>(context, "drive/rows", number, { key: from }));
    const original = find()?.row;
    if (!original) return link.handOver({ cause: "original" });
    if (await store({ ...toCopiedRow(original), id: rows.count, key }, [], copied)) return;
  }
  link.handOver();

  /** Stores the next row; the last one with the end, if the fork ends at once. Resolves to true if it did. */
  async function store(row: JournalRow | undefined, own: readonly EventBody[], copied: StoredRow["copied"]) {
    const { stored } = rows.toNext(row, own, []);
    const notMade = { stored: { ...stored, copied }, transitions: [] };
    if (!next || stored.number < sources.length) {
      rows.store(notMade);
      return false;
    }
    const end = rows.toNext(row, own, [next]);
    const made = { ...end, stored: { ...end.stored, at: next.at, copied, moved: true } };
    return (await rows.settle(link, next, { made, notMade })).isMade;
  }
}

type ReadText = (row: number) => Promise<JsonText | undefined>;

/** The start of a fork as its first drive needs it. `readText` reads a row of the original. */
export async function toCopies(execution: Execution, source: ForkSource, readText: ReadText): Promise<Copies> {
  const { from, rows, events, copied } = source;
  const next = await toNext(execution, source, readText);
  return { from, rows: rows.map((one) => [one.row.id, one.key, one.copied]), events, copied, next };
}

/** The transition of a fork that ends at once, with the texts of its values. */
async function toNext(
  { input }: Execution,
  { rows, transition }: ForkSource,
  readText: ReadText,
): Promise<Transition | undefined> {
  if (!transition) return undefined;
  const read = rows.map(async ({ row }) => [row.id, row.body === null ? await readText(row.id) : textOf(row)] as const);
  const texts = new Map([[inputRow, input] as const, ...(await Promise.all(read))]);
  return resolveTransition(transition, (value) => toText(value, (row) => texts.get(row)));
}
