// A server whose clock is ahead, as a process that is stopped or killed and started again: node host.ts <folder> <milliseconds>
import { openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { toProject } from "../../../src/config/load.ts";
import { defineWorkflow, embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { closeOnSignal } from "../../../src/server/shutdown.ts";
import { FastClock } from "../../engine/trees/play/clock.ts";
import { keepRecords } from "../../harness/logged.ts";
import { neverMs } from "../../harness/patience.ts";

keepRecords();
const [folder = "", ahead = ""] = process.argv.slice(2);
const clock = new FastClock();
clock.skip(Number(ahead));
const log = openSync(join(folder, "log"), "a");
/** Synchronous: everything that has happened is in the log. */
const note = ({ executionId }: { executionId: string }, what: unknown): void =>
  void writeSync(log, `${executionId} ${ahead} ${JSON.stringify(what)}\n`);

const hour = 3_600_000;
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

const server = openServer(
  toProject({
    workflows,
    backend: embedded({ path: join(folder, "data.db") }),
    server: { limits: { drainMs: neverMs, drainNoticeMs: 0 } },
  }),
  { mode: "start", clock },
);
const { url } = await server.listen({ port: 0 });
console.log(url);
closeOnSignal(() => server.close(), {
  shuttingDown: () => console.log("shutting down"),
  shutdownFailed: console.log,
});
