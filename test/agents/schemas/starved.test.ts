import type { ChildProcess } from "node:child_process";
import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { expect, it, onTestFinished } from "vitest";
import { Validator } from "@cfworker/json-schema";
import { SchemaChecker } from "../../../src/agents/schemas/schema-checker.ts";
import { cpuMs } from "../../harness/cpu.ts";
import { neverMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { untilServed } from "./until-served.ts";

const honest = JSON.stringify({ type: "object", properties: { n: { type: "number" } } });

/** Creates a checker whose first worker is up. */
async function open(schemaMs: number): Promise<{ checker: SchemaChecker; worker: ChildProcess }> {
  const workers: ChildProcess[] = [];
  const record = (message: unknown): void => void workers.push((message as { process: ChildProcess }).process);
  subscribe("child_process", record);
  const checker = new SchemaChecker({ schemaMs }, neverMs);
  onTestFinished(async () => {
    await checker.close();
    unsubscribe("child_process", record);
  });
  // The first check of a process may take more than a short limit: its code is not compiled yet.
  await until(async () => "root" in (await untilServed(() => checker.check(honest))), "a worker that is warm");
  return { checker, worker: workers.at(-1)! };
}

/** Lets a process run for only a part of the time, as on a busy machine. */
function throttle(worker: ChildProcess, part: number): void {
  const periodMs = 40;
  const stop = (): void => {
    worker.kill("SIGSTOP");
    setTimeout(() => worker.kill("SIGCONT"), (1 - part) * periodMs);
  };
  stop(); // at once: a fast machine needs less than one period
  const period = setInterval(stop, periodMs);
  onTestFinished(() => clearInterval(period));
}

it("answers 503 with a retry time for an honest schema whose checker never gets the processor", async () => {
  const { checker, worker } = await open(20);
  worker.kill("SIGSTOP");
  await expect(checker.check(honest)).rejects.toMatchObject({ status: 503, headers: [["retry-after", "1"]] });
});

it("checks an honest schema in another process when its checker is stopped for longer than the deadline", async () => {
  const { checker, worker } = await open(50);
  worker.kill("SIGSTOP");
  expect(await untilServed(() => checker.check(honest))).toEqual({ root: "object" });
});

it("lets an honest check finish that gets a tenth of a processor", async () => {
  const schema = { type: "object" as const, properties: { list: { uniqueItems: true } } };
  const value = { list: Array.from({ length: 500 }, (_, n) => ({ n })) };
  const needed = cpuMs(() => new Validator(schema, "2020-12").validate(value));
  const { checker, worker } = await open(Math.ceil(4 * needed));
  throttle(worker, 0.1);
  const verdict = await untilServed(() => checker.check(JSON.stringify(schema), JSON.stringify(value)));
  expect(verdict).toEqual({ root: "object", mismatch: undefined });
});

it("refuses a pattern that burns its processor time, also on a part of a processor", async () => {
  const schema = JSON.stringify({ type: "object", properties: { a: { pattern: "^(a+)+$" } } });
  const { checker, worker } = await open(50);
  throttle(worker, 0.8);
  const verdict = await untilServed(() => checker.check(schema, JSON.stringify({ a: `${"a".repeat(60)}!` })));
  expect(verdict).toEqual({ problem: "validation takes longer than 50 ms" });
});

it("answers 503 for checks that run while the server shuts down", async () => {
  const { checker, worker } = await open(20);
  worker.kill("SIGSTOP");
  const check = expect(checker.check(honest)).rejects.toMatchObject({ status: 503 });
  await checker.close();
  await check;
});
