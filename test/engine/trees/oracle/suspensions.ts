// oxlint-disable vitest/no-standalone-expect -- the checks are run inside a test
import { expect } from "vitest";
import type { Tree } from "../make.ts";
import { Model } from "./model/model.ts";
import { positionOf, suspensionOf } from "./model/suspension.ts";
import { copiesOf, happenings, type Stored } from "./stored.ts";

/** Every suspension, and its absence, is the one that the model derives: after each row, with what `pending` lists. */
export function checkSuspensions(stored: Stored, tree: Tree): void {
  const { beginning, rows } = stored;
  const model = new Model(tree, stored);
  const copies = copiesOf(stored);
  if (copies === 0) checkDecision("the start", happenings(beginning), true);
  for (const [index, row] of rows.entries()) {
    const { at, key, kind, moved = true } = row;
    const place = positionOf(model);
    model.take(row);
    const events = index === copies - 1 ? happenings(beginning) : happenings(row);
    if (kind !== "signal" || model.status !== "suspended") {
      checkDecision(key, events, moved);
      continue;
    }
    // Where several processes decide, a suspend is answered with the place that was known to the one that was asked.
    const shown = events.map(({ suspension }) => suspension);
    const { reason, kind: told = "request" } = JSON.parse(row.body!);
    const suspendedAt = new Date(at).toISOString();
    // There, a journal may also be cut behind a row whose end lost against a command: the server suspends that one.
    const own = row.moved === undefined ? { kind: "request", ...place } : { kind: told };
    expect(shown, `the suspension by ${key}`).toMatchObject([{ suspendedAt, reason, ...own }]);
  }

  function checkDecision(key: string, events: ReturnType<typeof happenings>, isGranted: boolean): void {
    const found = events.filter(({ type }) => type === "workflow-suspended").map(({ suspension }) => suspension);
    const expected = isGranted ? suspensionOf(model) : undefined;
    expect(found, `the suspension after ${key}`).toEqual(expected ? [expected] : []);
    if (expected) model.status = "suspended";
  }
}
