import { Readable } from "node:stream";
import { expect } from "vitest";
import { unchecked } from "../../../../src/core/caller.ts";
import type { ExecutionState } from "../../../../src/engine/execution.ts";
import type { HistoryRow } from "../../../../src/engine/contract/engine.ts";
import { fork } from "../../../../src/workflows/repair.ts";
import type { DescribedExecution, StepRecord } from "../../../../src/engine/steps/step-history.ts";
import { readSteps } from "../../../../src/engine/steps/read-steps.ts";
import { inputRow, toText, type Value } from "../../../../src/engine/walk/value.ts";
import { historyWithCopies, toDescribed } from "../../../../src/workflows/history/former-executions.ts";
import type { Luck } from "../luck.ts";
import type { Tally } from "./tally.ts";
import { isWaiting } from "./waits.ts";
import type { World } from "./world.ts";

const maxExecutions = 9;

interface MadeFork {
  readonly executionId: string;
  /** The original does not change while the fork is played. */
  checkOriginal(): Promise<void>;
}

/** Forks an execution that is suspended or has ended; not if there are many already. */
export async function makeFork(
  world: World,
  state: ExecutionState,
  luck: Luck,
  tally: Tally,
): Promise<MadeFork | undefined> {
  const { engine, book, runnable } = world;
  const { id } = state.execution;
  if (book.executions.length >= maxExecutions) return undefined;
  const before = await read();
  const top = runnable.definition.steps.map((step) => step.id);
  let reached = state.execution.fork?.stepIndex ?? 0; // the last top-level step that has begun: going back leaves the later ones
  for (const { type, from } of before.history.flatMap(({ events }) => events))
    if (type === "step-start" && top.includes(from!)) reached = top.indexOf(from!);
  const choices = top.slice(0, reached + 1);
  const fromStep = luck.chance(0.3) ? undefined : choices[luck.pick(choices.length)];
  const executionId = `fork-${book.executions.length}`;
  book.executions.push(executionId);
  tally.forked++;
  const made = await fork(engine, runnable, state, { fromStep, executionId }, unchecked);
  expect(made.fork).toMatchObject({ from: id, ...(fromStep && { stepIndex: top.indexOf(fromStep) }) });
  const copied = top.slice(0, made.fork!.stepIndex);
  // Where callers hear late, the rows are copied after the answer.
  if (!world.hearsLate) {
    expect(await outputsOf(executionId), "what a fork has copied").toEqual(await outputsOf(id));
    await checkFormer(toDescribed((await engine.state(executionId))!.execution));
  }
  return {
    executionId,
    async checkOriginal() {
      const after = await read();
      if (!isWaiting(state)) expect(after.state, "the original of a fork").toEqual(before.state);
      // Steps of a suspended execution that were in flight finish meanwhile.
      expect(after.history.slice(0, before.history.length), "the original of a fork").toEqual(before.history);
    },
  };

  /** The outputs of the steps that were copied, as `GET …/steps` shows them. */
  async function outputsOf(of: string): Promise<string[]> {
    const { execution } = (await engine.state(of))!;
    const records = await readSteps(engine, toDescribed(execution), {});
    const texts = new Map([[inputRow, execution.input as string | undefined]]);
    const found: string[] = [];
    for (const { node, status, output } of records.filter((record) => copied.includes(record.node.path)))
      found.push(`${node.path} ${status} ${await toWhole(output)}`);
    return found.toSorted();

    async function toWhole(value: Value): Promise<string | undefined> {
      for (;;) {
        let missing: number | undefined;
        try {
          return toText(value, (row) => {
            if (texts.has(row)) return texts.get(row);
            missing = row;
            throw new Error(`row ${row} is read first`);
          });
        } catch (error) {
          if (missing === undefined) throw error;
        }
        texts.set(missing, await engine.rowText(of, missing));
      }
    }
  }

  /** The same steps are shown if a former version has stored the fork. */
  async function checkFormer(execution: DescribedExecution): Promise<void> {
    const pages: HistoryRow[][] = [];
    for await (const page of engine.history(executionId)) pages.push([...page]);
    expect(pages[0]![0]!.copied, "the events with which copied steps begin").toBeDefined();
    const former = pages.map((page) => page.map(({ row, at, events }) => ({ row, at, events })));
    const readAll = (all: HistoryRow[][]): Promise<readonly StepRecord[]> => {
      const stored = { history: () => Readable.from(all) as AsyncIterable<HistoryRow[]> };
      return readSteps({ history: () => historyWithCopies(stored, execution, runnable.createWalk) }, execution, {});
    };
    expect(await readAll(former), "a fork of a former version").toEqual(await readAll(pages));
  }

  async function read() {
    const history: HistoryRow[] = [];
    for await (const page of engine.history(id)) history.push(...page);
    return { state: await engine.state(id), history };
  }
}
