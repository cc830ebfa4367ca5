import type { JsonText } from "../../../core/json.ts";
import { resolveTransition, type Execution, type Transition } from "../../../engine/execution.ts";
import type { ForkSource } from "../../../engine/fork.ts";
import { textOf } from "../../../engine/runs/journal-row.ts";
import { inputRow, toText } from "../../../engine/walk/value.ts";
import type { Copies } from "../register/register-state.ts";

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
