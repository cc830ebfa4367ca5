// Workflows that wait for times and events, on a clock that is so many milliseconds ahead.
import { join } from "node:path";
import { defineWorkflow, embedded } from "../../../src/index.ts";
import { FastClock } from "../../engine/trees/play/clock.ts";
import { createLog, type Hosted } from "../../harness/hosted.ts";
import { neverMs } from "../../harness/patience.ts";

const hour = 3_600_000;

export default function create({ folder, ahead }: { folder: string; ahead: number }): Hosted {
  const clock = new FastClock();
  clock.skip(ahead);
  const write = createLog(folder);
  const note = ({ executionId }: { executionId: string }, what: unknown): void =>
    write(`${executionId} ${ahead} ${JSON.stringify(what)}`);
  type Noted = Parameters<typeof note>[0] & { readonly data: unknown };
  const end = { id: "end", execute: (context: Noted) => note(context, context.data) };
  const retry = (id: string, attempts: number, delay: number) =>
    defineWorkflow({ id }).andThen({
      id: "pay",
      retry: { attempts, delay },
      execute(context) {
        note(context, context.attempt);
        if (context.attempt < attempts) throw new Error("not yet");
      },
    });
  const nap = (id: string) => ({
    id,
    duration: ({ input }: { readonly input: Record<string, unknown> }) => Number(input["ms"]),
  });

  const workflows = [
    defineWorkflow({ id: "sleep" }).andSleep({ id: "nap", duration: hour }).andTap(end),
    defineWorkflow({ id: "short-sleep" }).andSleep({ id: "nap", duration: "4s" }).andTap(end),
    defineWorkflow({ id: "until" })
      .andSleepUntil({ id: "nap", date: () => new Date(clock.now() + hour) })
      .andTap(end),
    defineWorkflow({ id: "deadline" })
      .andThen({
        id: "ask",
        execute: ({ suspend, timedOut }) => (timedOut ? "late" : suspend("Ok?", undefined, { timeout: hour })),
      })
      .andTap(end),
    defineWorkflow({ id: "event" }).andWaitFor({ id: "go", event: "go" }).andTap(end),
    retry("retry", 3, hour),
    retry("short-retry", 2, 4_000),
    // Waits for three events, and sleeps before each.
    defineWorkflow({ id: "three" })
      .andSleep(nap("nap-1"))
      .andWaitFor({ id: "first", event: "tick" })
      .andTap({ ...end, id: "note-1" })
      .andSleep(nap("nap-2"))
      .andWaitFor({ id: "second", event: "tick" })
      .andTap({ ...end, id: "note-2" })
      .andSleep(nap("nap-3"))
      .andWaitFor({ id: "third", event: "tick" })
      .andTap({ ...end, id: "note-3" }),
  ];

  const server = { limits: { drainMs: neverMs, drainNoticeMs: 0 } };
  return { config: { workflows, backend: embedded({ path: join(folder, "data.db") }), server }, clock };
}
