import { expect } from "vitest";
import type { WorkflowDefinition } from "../../../../src/engine/definition/definition.ts";
import type { Book } from "../play/book.ts";
import { replay } from "./replay.ts";
import { copiesOf, happenings, withoutNumbers, type Stored } from "./stored.ts";

/** What holds for the journal of every execution that has ended. */
export function checkJournal(stored: Stored, definition: WorkflowDefinition, book: Book): void {
  const { execution, beginning, rows } = stored;
  const entries = rows.filter(({ kind }) => kind !== "signal" && kind !== "wake");
  expect(duplicates(rows.map(({ key }) => key)), "keys that stand in the journal twice").toEqual([]);
  for (const stable of new Set(entries.map(({ key }) => key.replace(/#\d+$/, "")))) {
    // Tries that fail, one that asks, tries that fail, one that is the last. Going back begins another key.
    const kinds = entries.filter(({ key }) => key.replace(/#\d+$/, "") === stable).map(({ kind }) => kind[0]);
    expect(kinds.join(""), `the entries of ${stable}`).toMatch(/^e*s?e*[vl]?$/);
  }
  const late = entries.filter(({ key }) => book.late.has(`${execution.id}/${key}`));
  expect(late, "recorded, though nobody waited for them when they ended").toEqual([]);

  let seq = 0;
  const sums = [beginning, ...rows].map((row) => (seq += happenings(row).length));
  const numbers = [beginning, ...rows].map((row) => row.seq);
  expect(numbers, "after each row, the number of the last event so far").toEqual(sums);
  checkEvents(stored);
  checkReplay(stored, definition, book);
}

function checkEvents({ execution, events, status }: Stored): void {
  expect(events.filter(({ type }) => type === "workflow-start").map(({ seq }) => seq)).toEqual([1]);
  expect(events.at(-1)?.type).toBe(status === "completed" ? "workflow-complete" : "workflow-error");
  const paths = new Map(execution.steps.map(([path, type]) => [path, type]));
  const typeOf = (path: string): string | undefined => paths.get(withoutNumbers(path));
  const tops = execution.steps.filter(([path]) => !path.includes("/")).map(([path]) => path);
  expect(tops.length).toBeGreaterThan(0);
  const open = new Map<string, number>();
  for (const { type, from, stepType, suspension } of events) {
    if (type === "step-start" || type === "step-complete") {
      expect(stepType, `type of ${from}`).toBe(typeOf(from!));
      open.set(from!, (open.get(from!) ?? 0) + (type === "step-start" ? 1 : -1));
      expect(open.get(from!), `${from} is complete before it starts`).toBeGreaterThanOrEqual(0);
    }
    if (type === "workflow-suspended") {
      const { stepId } = suspension as { stepId: string };
      expect(typeOf(stepId) !== undefined, `suspension at ${JSON.stringify(stepId)}`).toBe(true);
    }
  }
}

/** The journal alone gives the stored events, row by row, and the same transitions, and runs nothing. */
function checkReplay(stored: Stored, definition: WorkflowDefinition, book: Book): void {
  const { beginning, rows, status, epoch, last, ended } = stored;
  const before = [...book.byIdempotencyKey];
  const replayed = replay(stored, definition, !book.hasJumped());
  // The start of a fork and the rows that it copies are one change.
  const own = 1 + copiesOf(stored);
  const [start, ...later] = [replayed.events.slice(0, own).flat(), ...replayed.events.slice(own)];
  const file = [beginning, ...rows.slice(own - 1)].map(happenings);
  expect([start, ...later], "events of the replay, by row").toEqual(file);
  expect([...book.byIdempotencyKey], "code that the replay ran").toEqual(before);
  expect({ status, epoch, last: JSON.parse(last!), ended }, "how it stands").toEqual(replayed.state);
  expect(["completed", "error"]).toContain(status);
}

function duplicates(list: string[]): string[] {
  return list.filter((one, index) => list.indexOf(one) !== index);
}
