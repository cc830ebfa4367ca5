// Workflows whose steps are reported when they start.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { andThen, defineSchedule, defineWorkflow } from "../../src/index.ts";
import { withBounds } from "../harness/bounds.ts";
import type { Hosted } from "../harness/hosted.ts";
import { serveReplica, type ReplicaPlace } from "./serve-replica.ts";
import type { StartedStep } from "./replicas.ts";

interface Options extends ReplicaPlace {
  readonly stepMs: number;
  readonly every?: string;
}

export default function create(place: Options, send: (step: StartedStep) => void): Hosted {
  const { stepMs, every } = place;
  const gate = join(place.folder, "gate");
  const report = (id: string, step: string): void => send({ id, step, at: Date.now() });
  const step = (id: string, end: () => Promise<unknown> = () => sleep(stepMs)) => ({
    id,
    execute: async ({ executionId }: { executionId: string }) => {
      report(executionId, id);
      await end();
      return id;
    },
  });
  const untilOpen = async (): Promise<void> => {
    while (!existsSync(gate)) await sleep(20);
  };
  const slow = defineWorkflow({ id: "slow" })
    .andThen(step("s1"))
    .andThen(step("s2"))
    .andThen(step("s3"))
    .andThen(step("s4"))
    .andThen(step("s5"));
  /** Waits in its second step until the gate is open. */
  const gated = defineWorkflow({ id: "gated" }).andThen(step("s1")).andThen(step("s2", untilOpen)).andThen(step("s3"));
  /** Two run at a time in the whole cluster, from the moment when the gate is open. */
  const limited = defineWorkflow({ id: "limited", concurrency: { limit: 2 } }).andThen({
    id: "work",
    execute: async ({ executionId }) => {
      report(executionId, "begin");
      await untilOpen();
      await sleep(stepMs);
      report(executionId, "end");
    },
  });
  /** Suspends in its first step until it is resumed. */
  const ask = defineWorkflow({ id: "ask" })
    .andThen({
      id: "person",
      execute: ({ executionId, resumeData, suspend }) => {
        report(executionId, resumeData ? "resumed" : "person");
        return resumeData ?? suspend("Approve?");
      },
    })
    .andThen({ id: "finish", execute: ({ data }) => data });
  /** Sleeps for the milliseconds of its input, suspended. */
  const nap = defineWorkflow({ id: "nap" })
    .andSleep({ id: "sleep", duration: ({ input }) => Number((input as { ms?: number }).ms) })
    .andThen(step("end", async () => {}));
  /** Waits until the gate is open, then for two events. */
  const orders = defineWorkflow({ id: "orders" })
    .andThen(step("gate", untilOpen))
    .andWaitFor({ id: "first", event: "paid", key: ({ executionId }) => executionId })
    .andThen({ id: "between", execute: ({ executionId, data }) => (report(executionId, "between"), data as unknown) })
    .andWaitFor({ id: "second", event: "paid", key: ({ executionId }) => executionId })
    .andThen({ id: "both", execute: ({ data, getStepData }) => [getStepData("between"), data] });
  /** One at a time in the whole cluster, except while it sleeps. */
  const turns = defineWorkflow({ id: "turns", concurrency: { limit: 1 } })
    .andThen(turn("one"))
    .andSleep({ id: "nap", duration: ({ input }) => Number((input as { ms?: number }).ms) })
    .andThen(turn("two"));
  function turn(id: string) {
    return {
      id,
      execute: async ({ executionId }: { executionId: string }) => {
        report(executionId, `${id}-begin`);
        await sleep(stepMs);
        report(executionId, `${id}-end`);
      },
    };
  }
  /** Loops over 1,000 items, so many at a time. Each of them is reported. */
  const each = [1, 10].map((concurrency) =>
    defineWorkflow({ id: `each${concurrency}` })
      .andForEach({
        id: "each",
        items: () => Array.from({ length: 1_000 }, (_, index) => index),
        concurrency,
        step: andThen({
          id: "pay",
          execute: async ({ executionId, data }) => {
            report(executionId, String(data));
            await sleep(2); // so that some are in flight at any time
            return 2 * (data as number);
          },
        }),
      })
      .andThen({ id: "end", execute: ({ data }) => data }),
  );
  /** Waits for a child that takes many short steps. */
  const child = defineWorkflow({ id: "child" })
    .andForEach({
      id: "each",
      items: () => Array.from({ length: 150 }, (_, index) => index),
      step: andThen({
        id: "item",
        execute: async ({ executionId, data }) => (report(executionId, String(data)), await sleep(50)),
      }),
    })
    .andThen({ id: "end", execute: ({ data }) => data.length });
  const parent = defineWorkflow({ id: "parent" })
    .andThen({
      id: "waits",
      async execute({ runtime, executionId }) {
        const handle = await runtime.start(child, { of: executionId });
        report(executionId, handle.executionId);
        return handle.result();
      },
    })
    .andThen({ id: "end", execute: ({ data }) => data });
  /** The workflow of the schedule. */
  const tick = defineWorkflow({ id: "tick" }).andThen(step("only", async () => {}));
  const bounds = { runningExecutions: 1_000, queuedExecutions: 1_000, inlineSleepMs: 1 };
  const workflows = [slow, gated, limited, ask, nap, orders, turns, child, parent, tick, ...each];
  const schedules =
    every === undefined ? [] : [defineSchedule({ id: "each", every, workflow: tick, overlap: "allow" })];
  return serveReplica(place, withBounds(bounds, { workflows, schedules }));
}
