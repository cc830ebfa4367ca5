import { describe, expect, it } from "vitest";
import type { ListFilter, ListPage } from "../../src/engine/contract/engine.ts";
import type { ExecutionState } from "../../src/engine/execution.ts";
import { listReadable } from "../../src/workflows/lists/readable-page.ts";

/** More executions than `authorize` is asked about for one page, newest first. */
const listStates = (perMs: number): ExecutionState[] =>
  Array.from({ length: 2_500 }, (_, index) => {
    const number = 2_500 - index;
    const id = `e${String(number).padStart(4, "0")}`;
    const execution = { id, workflowId: "w", startAt: Math.floor(number / perMs) };
    return { execution, status: "running" } as ExecutionState; // what a page reads
  });
const idOf = ({ execution }: ExecutionState): string => execution.id;

const createReader =
  (states: readonly ExecutionState[]) =>
  async ({ before, limit }: ListFilter): Promise<ListPage> => {
    const isBefore = ({ execution: { startAt, id } }: ExecutionState): boolean =>
      !before || startAt < before.startAt || (startAt === before.startAt && id < before.id);
    const rest = states.filter(isBefore);
    return { states: rest.slice(0, limit), hasMore: rest.length > limit };
  };

describe.each([
  { title: "seven executions in a millisecond", states: listStates(7) },
  { title: "all executions in one millisecond", states: listStates(10_000) },
])("$title", ({ states }) => {
  it.each<[title: string, isAllowed: (number: number) => boolean]>([
    ["every third", (number) => number % 3 === 0],
    ["one in 900", (number) => number % 900 === 0],
    ["those around the end of a page", (number) => number > 1_490 && number < 1_510 && number !== 1_501],
    ["one behind a thousand", (number) => number === 1_500],
    ["none", () => false],
  ])("pages through all executions that authorize allows, each once and newest first: %s", async (_, isAllowed) => {
    const isReadable = (id: string): boolean => isAllowed(Number(id.slice(1)));
    const ask = ({ execution }: { execution: { executionId: string } }) => isReadable(execution.executionId);
    const request = { identity: { checked: true, ownership: false }, snapshot: { authorizer: { ask } } };
    const seen: string[] = [];
    let before: ListFilter["before"];
    do {
      const page = await listReadable(request as never, { limit: 50, before }, undefined, createReader(states));
      seen.push(...page.states.map(idOf));
      before = page.next;
      if (before && before.id !== "0") expect(isReadable(before.id), "no cursor names a hidden execution").toBe(true);
    } while (before);
    expect(seen).toEqual(states.map(idOf).filter(isReadable));
  });
});
