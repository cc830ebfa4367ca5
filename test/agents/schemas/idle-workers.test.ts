import type { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it, onTestFinished } from "vitest";
import { SchemaChecker } from "../../../src/agents/schemas/schema-checker.ts";
import { neverMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { untilServed } from "./until-served.ts";

const schema = JSON.stringify({ type: "object", properties: { n: { type: "number" } } });

interface Opened {
  readonly check: SchemaChecker["check"];
  /** Every process that the checker has started. */
  readonly workers: readonly ChildProcess[];
  readonly alive: () => number;
}

/** Creates a checker. `onKill` is called whenever it ends a worker, before and after the signal is sent. */
function open(idleMs: number, onKill = (): void => {}): Opened {
  const workers: ChildProcess[] = [];
  const record = (message: unknown): void => {
    const { process: worker } = message as { process: ChildProcess };
    workers.push(worker);
    const kill = worker.kill.bind(worker);
    worker.kill = (signal) => {
      onKill();
      const isSent = kill(signal);
      onKill();
      return isSent;
    };
  };
  subscribe("child_process", record);
  const checker = new SchemaChecker({ schemaMs: 2_000 }, idleMs);
  onTestFinished(async () => {
    await checker.close();
    unsubscribe("child_process", record);
    expect(workers.filter(isAlive)).toEqual([]);
  });
  return {
    check: (...asked) => untilServed(() => checker.check(...asked)),
    workers,
    alive: () => workers.filter(isAlive).length,
  };
}

/** Asks the system, not Node. Signal 0 is never sent, and fails if there is no such process. */
function isAlive({ pid }: ChildProcess): boolean {
  try {
    return process.kill(pid!, 0);
  } catch {
    return false;
  }
}

it("idle schema workers are ended, and started again for the next check", async () => {
  const { check, workers, alive } = open(50);
  for (const round of [1, 2]) {
    const verdicts = await Promise.all(Array.from({ length: 4 }, (_, n) => check(schema, JSON.stringify({ n }))));
    expect(verdicts).toEqual(verdicts.map(() => ({ root: "object" })));
    expect(workers.length).toBeGreaterThanOrEqual(round);
    await until(
      () => alive() === 0,
      () => `the end of ${alive()} idle workers`,
    );
  }
});

it("a schema worker whose idle time has not passed does the next check", async () => {
  const { check, workers, alive } = open(neverMs);
  for (let n = 0; n < 20; n++) expect(await check(schema, JSON.stringify({ n }))).toEqual({ root: "object" });
  expect([workers.length, alive()]).toEqual([1, 1]);
});

it("a check that arrives while an idle schema worker is ended is done by another worker", async () => {
  const late: Promise<unknown>[] = [];
  const { check, alive } = open(1, () => {
    if (late.length < 10) late.push(check(schema, '{"n":"a text"}'));
  });
  expect(await check(schema, "{}")).toEqual({ root: "object" });
  await until(() => late.length === 10, "the end of five idle workers");
  for (const verdict of await Promise.all(late)) {
    expect(verdict).toEqual({ root: "object", mismatch: expect.stringContaining("number") });
  }
  await until(
    () => alive() === 0,
    () => `the end of ${alive()} idle workers`,
  );
});
