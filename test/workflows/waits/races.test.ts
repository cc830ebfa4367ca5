import { defineWorkflow } from "agentserve";
import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import type { TestClock } from "agentserve/testing";
import type { Clock } from "../../../src/core/clock.ts";
import { FastClock } from "../../engine/trees/play/clock.ts";
import { bySize } from "../../harness/size.ts";
import { until } from "../../harness/waiting.ts";
import { hour, minute, newFile, query, serve, type Answer } from "./serve.ts";

/** Each begins a minute after the one before it. At their deadlines, the minutes pass in one turn of the event loop each. */
const numbers = Array.from({ length: bySize(100, 200) }, (_, index) => index);
const rounds = Array.from({ length: bySize(1, 5) }, (_, index) => index);
/** The turns by which a request is before or after its deadline: most ends are close. */
const most = 6;
const turnsAfter = (index: number): number => (index % (2 * most + 1)) - most;

it("decides deadline against resume, and event against time-out, once each", async () => {
  const ran: string[] = [];
  const count = { id: "count", execute: ({ executionId }: { executionId: string }) => void ran.push(executionId) };
  const ask = defineWorkflow({ id: "ask" })
    .andThen({
      id: "ask",
      execute: ({ suspend, timedOut, resumeData }) =>
        timedOut ? "late" : (resumeData ?? suspend("?", undefined, { timeout: "10h" })),
    })
    .andTap(count);
  const wait = defineWorkflow({ id: "wait" })
    .andWaitFor({ id: "w", event: "go", key: ({ executionId }) => executionId, timeout: "10h" })
    .andTap(count);
  const file = newFile();
  const clock = new FastClock();
  const server = serve({ workflows: [ask, wait] }, { file, clock: clock as Clock as TestClock }); // this test moves it itself
  const execute = (workflow: string, executionId: string): Promise<Answer> =>
    server.post(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
  const countOf = (status: string): number =>
    query<{ count: number }>(file, `select count(*) as count from executions where status = '${status}'`)[0]!.count;
  const outcomes = { resumed: 0, late: 0, event: 0, null: 0 };
  for (const round of rounds) {
    const asks = numbers.map((n) => `a${round}.${n}`);
    const waits = numbers.map((n) => `w${round}.${n}`);
    for (const n of numbers) {
      // Answered when it waits.
      const ends = [execute("ask", asks[n]!), execute("wait", waits[n]!)];
      for (const { body } of await Promise.all(ends)) expect(body.data.status).toBe("suspended");
      clock.skip(minute);
    }
    clock.skip(10 * hour - (numbers.length + 1) * minute);
    const resumes: Promise<Answer>[] = [];
    const events: Promise<Answer>[] = [];
    for (let turn = -most; turn <= numbers.length + most; turn++) {
      if (turn >= 0) clock.skip(minute);
      for (let index = turn - most; index <= turn + most; index++) {
        if (!waits[index] || index + turnsAfter(index) !== turn) continue;
        resumes[index] = server.resume("ask", { resumeData: "resumed" }, asks[index]);
        events[index] = server.post("/events", { name: "go", key: waits[index], data: "event" });
      }
      await setImmediate();
    }
    const answers = await Promise.all(resumes);
    await Promise.all(events);
    await until(() => countOf("suspended") + countOf("running") === 0, "all of them to end");
    for (const [index, id] of asks.entries()) {
      const { status, result } = await server.state("ask", id);
      const isResumed = answers[index]!.status === 202;
      expect([id, status, result]).toEqual([id, "completed", isResumed ? "resumed" : "late"]);
      if (!isResumed) expect(answers[index]!.status).toBe(404);
      outcomes[isResumed ? "resumed" : "late"]++;
    }
    for (const id of waits) {
      const { status, result } = await server.state("wait", id);
      expect([id, status]).toEqual([id, "completed"]);
      expect(["event", null], id).toContain(result);
      outcomes[result === null ? "null" : "event"]++;
    }
  }
  expect(ran.length).toBe(2 * rounds.length * numbers.length);
  expect(new Set(ran).size).toBe(ran.length);
  // One row each, of the deadline or of the other.
  const ends = "select count(*) as count from journal where kind in ('wake', 'signal') group by number";
  expect(query<{ count: number }>(file, `select distinct count from (${ends})`)).toEqual([{ count: 1 }]);
  console.log(`deadline against resume, event against time-out: ${JSON.stringify(outcomes)}`);
  for (const [outcome, found] of Object.entries(outcomes)) expect(found, outcome).toBeGreaterThan(0);
});
