import { join } from "node:path";
import {
  defineSchedule,
  defineWorkflow,
  embedded,
  type Config,
  type ScheduleDefinition,
  type ScheduleTick,
} from "agentserve";
import { createClock, type TestClock } from "agentserve/testing";
import * as v from "valibot";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { toProject } from "../../src/config/load.ts";
import type { ScheduleChange } from "../../src/engine/contract/schedules.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { createSharedFolder } from "../harness/folders.ts";
import { createGates } from "../harness/gates.ts";
import { createTestLogger, type LogRecord } from "../harness/server.ts";

const folder = createSharedFolder("schedules");

let files = 0;
let backend: Config["backend"];
let clock: TestClock;
let gates: ReturnType<typeof createGates>;
/** The executions that have begun, without the beginning of their ids. */
let began: string[];
let logs: LogRecord[];
let server: OpenServer;

beforeEach(() => {
  backend = embedded({ path: join(folder, `${files++}.db`), retention: false });
  clock = createClock({ now: "2026-11-17T10:00:00.500Z" });
  gates = createGates();
  began = [];
  logs = [];
});
afterEach(() => server.close());

const toShort = (id: string): string => id.replace(/^schedule:[a-z]+:/, "").replace(/^2026-11-17T|\.000Z$/g, "");
const quick = defineWorkflow({ id: "quick" }).andThen({
  id: "note",
  execute: ({ executionId }) => void began.push(toShort(executionId)),
});
const slow = defineWorkflow({ id: "slow" }).andThen({
  id: "wait",
  async execute({ executionId }) {
    began.push(toShort(executionId));
    await gates.pass(toShort(executionId));
  },
});
const asking = defineWorkflow({ id: "asking" }).andThen({
  id: "ask",
  execute({ executionId, suspend, resumeData }) {
    began.push(toShort(executionId));
    return resumeData ?? suspend("Approve?");
  },
});

type Options = Partial<Pick<ScheduleDefinition, "overlap">> & {
  catchUp?: string | false;
  input?: unknown;
  user?: object;
};
const each = (workflow: { id: string }, options: Options = {}, every = "1m"): ScheduleDefinition =>
  defineSchedule({ id: "each", every, workflow: workflow.id, ...options } as never);
const toConfig = (schedules: readonly ScheduleDefinition[], config: Partial<Config> = {}) =>
  toProject({ workflows: [quick, slow, asking, picky], schedules, backend, ...config });

interface StartOptions extends Partial<Config> {
  mode?: "start" | "dev";
}
async function start(schedules: readonly ScheduleDefinition[], { mode = "start", ...config }: StartOptions = {}) {
  server = openServer(toConfig(schedules, config), { mode, logger: createTestLogger(logs), clock });
  await send("/schedules");
  await clock.advance(0);
}
async function save(schedules: readonly ScheduleDefinition[]): Promise<void> {
  server.swap(toConfig(schedules));
  await clock.advance(0);
}
/** The server is down for some time. */
async function restart(schedules: readonly ScheduleDefinition[], by: string, options?: StartOptions): Promise<void> {
  await server.close();
  await clock.advance(by);
  await start(schedules, options);
}
async function send(path: string, method = "GET", json?: unknown): Promise<{ status: number; body: any }> {
  const init =
    json === undefined ? {} : { body: JSON.stringify(json), headers: { "content-type": "application/json" } };
  const response = await server.fetch(new Request(`http://localhost${path}`, { method, ...init }));
  return { status: response.status, body: await response.json() };
}
const view = async () => (await send("/schedules")).body.data[0];
const messages = () => logs.map(({ level, message }) => `${level}: ${message}`);

/** A backend whose schedules cannot be read or written for a while. */
function failingStore() {
  const own = backend!;
  const failing = {
    isBroken: false,
    backend: {
      ...own,
      open(parts: Parameters<typeof own.open>[0]) {
        const opened = own.open(parts);
        const { schedules } = opened;
        const guard = <T>(use: () => Promise<T>): Promise<T> =>
          failing.isBroken ? Promise.reject(new Error("broken")) : use();
        return {
          ...opened,
          schedules: {
            all: () => guard(() => schedules.all()),
            find: (id: string) => guard(() => schedules.find(id)),
            change: (id: string, change: ScheduleChange) => guard(() => schedules.change(id, change)),
          },
        };
      },
    } satisfies Config["backend"],
  };
  return failing;
}

const picky = defineWorkflow({ id: "picky", input: v.object({ day: v.string() }) }).andThen({
  id: "note",
  execute: ({ data: { day }, executionId, context }) =>
    void began.push(`${toShort(executionId)} ${day} ${context.get("userId")}`),
});

describe("a tick", () => {
  it("starts a tick with an execution id made of its time", async () => {
    await start([each(quick)]);
    await clock.advance("2m");
    expect(began).toEqual(["10:01:00", "10:02:00"]);
    const { body } = await send("/workflows/quick/executions/schedule:each:2026-11-17T10:02:00.000Z/state");
    expect(body.data).toMatchObject({ status: "completed" });
  });

  it("gives a tick's time to the input function, and the schedule's user to the execution", async () => {
    const input = ({ at }: ScheduleTick) => ({ day: at.toISOString().slice(0, 10) });
    await start([each(picky, { input, user: { id: 7, role: "robot" } })]);
    await clock.advance("1m");
    expect(began).toEqual(["10:01:00 2026-11-17 7"]);
  });

  it("starts no execution when the input of a tick is wrong, logs it, and tries the next tick", async () => {
    let input: unknown = { day: 7 };
    await start([each(picky, { input: () => (input instanceof Error ? Promise.reject(input) : input) })]);
    await clock.advance("1m");
    expect(messages()).toEqual(["error: Schedule each started no execution for 2026-11-17T10:01:00.000Z"]);
    expect(logs[0]!.data!["error"]).toMatchObject({ message: expect.stringContaining("day") });
    input = { day: "x" };
    await clock.advance("1m");
    expect(began).toEqual(["10:02:00 x schedule:each"]);
    await save([
      each(picky, {
        input: () => {
          throw new Error("no input");
        },
      }),
    ]);
    await clock.advance("1m");
    expect(messages()).toHaveLength(2);
    expect(began).toHaveLength(1);
    expect(await view()).toMatchObject({ lastAt: "2026-11-17T10:03:00.000Z" });
  });

  it("retries a tick while too many executions run", async () => {
    const config = { server: { limits: { runningExecutions: 1, queuedExecutions: 1 } } };
    await start([each(quick)], config);
    for (const executionId of ["one", "two"])
      void send("/workflows/slow/execute", "POST", { input: {}, options: { executionId } });
    await gates.reached("one");
    await clock.advance("1m");
    expect(began).toEqual(["one"]);
    expect(messages()).toEqual([
      expect.stringContaining("warn: Schedule each cannot start an execution: Too many executions"),
    ]);
    for (const id of ["one", "two"]) gates.open(id);
    await clock.advance("40s");
    expect(began).toEqual(["one", "two", "10:01:00"]);
  });

  it("awaits an async input function of a tick, and starts nothing if it fails", async () => {
    let makes = async (): Promise<unknown> => ({ day: "today" });
    await start([each(picky, { input: () => makes() })]);
    await clock.advance("1m");
    expect(began).toEqual(["10:01:00 today schedule:each"]);
    makes = () => Promise.reject(new Error("no database"));
    await clock.advance("1m");
    expect(messages()).toEqual(["error: Schedule each started no execution for 2026-11-17T10:02:00.000Z"]);
    expect((await send("/schedules/each/trigger", "POST")).status).toBe(500);
    makes = async () => ({ day: "again" });
    await clock.advance("1m");
    expect(began.slice(1)).toEqual(["10:03:00 again schedule:each"]);
  });

  it("starts no execution, and delays no other schedule, when code of the workflow throws", async () => {
    const broken = defineWorkflow({
      id: "quick",
      concurrency: {
        limit: 1,
        key() {
          throw new Error("no key");
        },
      },
    }).andThen({ id: "never", execute: () => 1 });
    await start([each(broken)], { workflows: [broken, picky] });
    await clock.advance("2m");
    expect(await view()).toMatchObject({ lastAt: "2026-11-17T10:02:00.000Z" });
  });

  it("starts one tick after the machine was asleep, and none that is over a minute old", async () => {
    await start([each(quick, {}, "20s")]);
    await clock.jump("1h");
    expect(began).toEqual(["11:00:00"].flatMap((last) => ["10:59:20", "10:59:40", last]));
  });

  it("repeats no tick when the clock is set back, and starts times that come for the first time", async () => {
    await start([each(quick)]);
    await clock.advance("2m");
    await clock.jump("-3m");
    expect(await view()).toMatchObject({ nextAt: "2026-11-17T10:00:00.000Z" });
    await clock.advance("4m");
    expect(began).toEqual(["10:01:00", "10:02:00", "10:00:00", "10:03:00"]);
    await restart([each(quick)], "1s");
    await clock.advance("1m");
    expect(began.slice(4)).toEqual(["10:04:00"]);
  });

  it("starts ticks again after a clock that was years ahead is corrected", async () => {
    await start([each(quick)]);
    await clock.jump("520w");
    await clock.advance("1m");
    const ahead = began.length;
    expect(ahead).toBeGreaterThan(0);
    await clock.jump("-520w");
    await clock.advance("1m");
    await restart([each(quick)], "1s");
    await clock.advance("1m");
    expect(began.slice(ahead)).toEqual(["10:02:00", "10:03:00"]);
  });

  it("loses no tick when the store fails for minutes, or is slow", async () => {
    const failing = failingStore();
    await start([each(quick, {}, "1h")], { backend: failing.backend });
    await clock.advance("59m");
    failing.isBroken = true;
    await clock.advance("5m");
    expect(began).toEqual([]);
    failing.isBroken = false;
    await clock.advance("10s");
    expect(began).toEqual(["11:00:00"]);
  });

  it("starts only the last of the ticks that could not be started for hours", async () => {
    const failing = failingStore();
    await start([each(quick)], { backend: failing.backend });
    failing.isBroken = true;
    await clock.advance("3h");
    failing.isBroken = false;
    await clock.advance("10s");
    expect(began).toEqual(["12:59:00", "13:00:00"]);
  });

  it("follows the time zone of a schedule where clocks are set forward and back", async () => {
    clock = createClock({ now: "2026-03-28T12:00:00Z" });
    const night = () => defineSchedule({ id: "night", cron: "30 2 * * *", timezone: "Europe/Berlin", workflow: quick });
    await start([night()]);
    await clock.advance("2d");
    await server.close();
    clock = createClock({ now: "2026-10-24T12:00:00Z" });
    await start([night()]);
    await clock.advance("2d");
    const times = ["2026-03-29T01:00:00", "2026-03-30T00:30:00", "2026-10-25T00:30:00", "2026-10-26T01:30:00"];
    expect(began).toEqual(times);
  });
});

describe("a tick while an earlier execution has not ended", () => {
  it("leaves a tick out while an earlier execution runs or is suspended, by default", async () => {
    await start([each(asking)]);
    await clock.advance("3m");
    expect(began).toEqual(["10:01:00"]);
    expect(messages().filter((message) => message.includes("left out"))).toHaveLength(2);
    await send("/workflows/asking/executions/schedule:each:2026-11-17T10:01:00.000Z/resume", "POST", { resumeData: 1 });
    await clock.advance("1m");
    expect(began).toEqual(["10:01:00", "10:01:00", "10:04:00"]);
  });

  it("starts a tick beside an earlier execution with overlap: allow", async () => {
    await start([each(slow, { overlap: "allow" })]);
    await clock.advance("3m");
    expect(began).toEqual(["10:01:00", "10:02:00", "10:03:00"]);
    for (const time of began) gates.open(time);
  });

  it("holds at most one tick with overlap: queue, also over a restart", async () => {
    const queue = () => each(asking, { overlap: "queue" });
    await start([queue()]);
    await clock.advance("4m");
    expect(began).toEqual(["10:01:00"]);
    await restart([queue()], "30s");
    expect(began).toEqual(["10:01:00"]);
    await send("/workflows/asking/executions/schedule:each:2026-11-17T10:01:00.000Z/resume", "POST", { resumeData: 1 });
    await clock.advance("10s");
    expect(began.slice(2)).toEqual(["10:02:00"]);
    await clock.advance("3m");
    await send("/workflows/asking/executions/schedule:each:2026-11-17T10:02:00.000Z/resume", "POST", { resumeData: 1 });
    await clock.advance("10s");
    expect(began.slice(4)).toEqual(["10:05:00"]);
  });

  it("leaves a tick out while a triggered execution runs, and always starts a trigger", async () => {
    await start([each(slow)]);
    await clock.advance("1m");
    const { status, body } = await send("/schedules/each/trigger", "POST");
    expect(status).toBe(202);
    expect(body.data).toEqual({
      executionId: expect.stringMatching(/^schedule:each:manual-[\da-f-]{36}$/),
      status: "running",
    });
    gates.open("10:01:00");
    await clock.advance("2m");
    expect(began).toEqual(["10:01:00", toShort(body.data.executionId)]);
    gates.open(toShort(body.data.executionId));
    await clock.advance("1m");
    expect(began.slice(2)).toEqual(["10:04:00"]);
    gates.open("10:04:00");
  });
});

describe("ticks that came while no server ran", () => {
  it("makes up no missed tick by default", async () => {
    await start([each(quick)]);
    await restart([each(quick)], "5m");
    await clock.advance("1m");
    expect(began).toEqual(["10:06:00"]);
  });

  it("makes up missed ticks as far as catchUp reaches, one after the other, and leaves out new ones meanwhile", async () => {
    const schedule = () => each(slow, { catchUp: "3m" });
    await start([schedule()]);
    await restart([schedule()], "5m");
    expect(began).toEqual(["10:03:00"]);
    await clock.advance("2m");
    expect(began).toEqual(["10:03:00"]);
    for (const [index, time] of ["10:03:00", "10:04:00", "10:05:00"].entries()) {
      expect(began.slice(index)).toEqual([time]);
      gates.open(time);
      await clock.advance("10s");
    }
    await clock.advance("1m");
    expect(began.slice(3)).toEqual(["10:08:00"]);
    gates.open("10:08:00");
  });

  it("starts missed ticks before a later one that overlap: queue holds", async () => {
    const schedule = () => each(slow, { catchUp: "1h", overlap: "queue" });
    await start([schedule()]);
    await restart([schedule()], "3m");
    await clock.advance("1m");
    for (const [index, time] of ["10:01:00", "10:02:00", "10:03:00", "10:04:00"].entries()) {
      expect(began.slice(index)).toEqual([time]);
      gates.open(time);
      await clock.advance("10s");
    }
  });

  it("keeps missed ticks waiting while live ones come, and makes up no live tick that was left out", async () => {
    const schedule = () => each(asking, { catchUp: "1h" });
    const resume = (time: string) =>
      send(`/workflows/asking/executions/schedule:each:2026-11-17T${time}.000Z/resume`, "POST", { resumeData: 1 });
    await start([schedule()]);
    await clock.advance("1m");
    await restart([schedule()], "2m");
    await clock.advance("5m");
    expect(await view()).toMatchObject({ lastAt: "2026-11-17T10:08:00.000Z" });
    await restart([schedule()], "10s");
    for (const time of ["10:01:00", "10:02:00", "10:03:00"]) {
      expect(began.at(-1)).toBe(time);
      await resume(time);
      await clock.advance("10s");
    }
    await clock.advance("1m");
    expect(began).toEqual(["10:01:00", "10:01:00", "10:02:00", "10:02:00", "10:03:00", "10:03:00", "10:09:00"]);
  });

  it("makes up no further missed ticks after a pause", async () => {
    const pausing = defineWorkflow({ id: "quick" }).andThen({
      id: "pause",
      async execute({ executionId }) {
        began.push(toShort(executionId));
        if (began.length === 3) await send("/schedules/each/pause", "POST");
      },
    });
    const schedule = () => each(pausing, { catchUp: "1h" });
    await start([schedule()], { workflows: [pausing, picky] });
    await restart([schedule()], "30m", { workflows: [pausing, picky] });
    await clock.advance("5m");
    expect(began).toEqual(["10:01:00", "10:02:00", "10:03:00"]);
  });

  it("makes up missed ticks over a second restart", async () => {
    const schedule = () => each(asking, { catchUp: "1h" });
    await start([schedule()]);
    await restart([schedule()], "3m");
    expect(began).toEqual(["10:01:00"]);
    await restart([schedule()], "10s");
    await send("/workflows/asking/executions/schedule:each:2026-11-17T10:01:00.000Z/resume", "POST", { resumeData: 1 });
    await clock.advance("10s");
    expect(began.slice(2)).toEqual(["10:02:00"]);
  });

  it("makes up the latest 100 missed ticks", async () => {
    const schedule = () => each(quick, { catchUp: "1d", overlap: "allow" }, "10s");
    await start([schedule()]);
    await restart([schedule()], "1h");
    expect(began).toHaveLength(100);
    expect([began[0], began.at(-1)]).toEqual(["10:43:30", "11:00:00"]);
  });

  it("makes up the latest 100 missed ticks of several restarts", async () => {
    const options: Options = { catchUp: "1d" };
    await start([each(asking, options)]);
    await restart([each(asking, options)], "80m");
    expect(began).toEqual(["10:01:00"]);
    await restart([each(quick, { ...options, overlap: "allow" })], "60m");
    const madeUp = began.filter((time) => time !== "10:01:00");
    expect([madeUp.length, madeUp[0], madeUp.at(-1)]).toEqual([100, "10:41:00", "12:20:00"]);
  });

  it("makes up no missed tick in dev", async () => {
    await start([each(quick, { catchUp: "1h" })]);
    await restart([each(quick, { catchUp: "1h" })], "5m", { mode: "dev" });
    await clock.advance("1m");
    expect(began).toEqual(["10:06:00"]);
  });
});

describe("a save", () => {
  it("changes the times of a schedule from a save on, and nothing else", async () => {
    await start([each(quick)]);
    await clock.advance("1m");
    await save([each(quick, { overlap: "allow" })]);
    await clock.advance("1m");
    await save([each(quick, {}, "30s")]);
    await clock.advance("1m");
    await save([]);
    await clock.advance("5m");
    await save([each(quick, { catchUp: "1h" }, "30s")]);
    await clock.advance("30s");
    expect(began).toEqual(["10:01:00", "10:02:00", "10:02:30", "10:03:00", "10:08:30"]);
  });

  it("drops a held tick when a save changes the times, removes the schedule or ends overlap: queue", async () => {
    const others = [[each(asking, { overlap: "queue" }, "7h")], [], [each(asking, { overlap: "skip" })]];
    for (const [index, other] of others.entries()) {
      const queue = each(asking, { overlap: "queue" });
      await start([queue]);
      await clock.advance("3m");
      const [time] = began;
      expect(began).toHaveLength(1);
      await save(other);
      await send(`/workflows/asking/executions/schedule:each:2026-11-17T${time}.000Z/resume`, "POST", {
        resumeData: 1,
      });
      await save([queue]);
      await clock.advance("30s");
      expect(began, String(index)).toEqual([time, time]);
      await clock.advance("30s");
      expect(began).toHaveLength(3);
      await server.close();
      backend = embedded({ path: join(folder, `${files++}.db`), retention: false });
      clock = createClock({ now: "2026-11-17T10:00:00.500Z" });
      began = [];
    }
    await start([]);
  });

  it("stores that a save removed a schedule, although the store fails at first", async () => {
    const failing = failingStore();
    const schedule = () => each(quick, { catchUp: "1h" });
    await start([schedule()], { backend: failing.backend });
    failing.isBroken = true;
    server.swap(toConfig([], { backend: failing.backend }));
    await clock.advance("5s");
    failing.isBroken = false;
    await clock.advance("15s");
    await restart([schedule()], "30m");
    expect(began).toEqual([]);
  });

  it("keeps a schedule paused over a save and a restart, and makes up no time of a pause", async () => {
    const schedule = () => each(quick, { catchUp: "1h" });
    await start([schedule()]);
    await clock.advance("1m");
    expect((await send("/schedules/each/pause", "POST")).body.data).toEqual({
      id: "each",
      workflowId: "quick",
      every: "1m",
      timezone: "UTC",
      paused: true,
      lastAt: "2026-11-17T10:01:00.000Z",
    });
    await clock.advance("1m");
    await save([each(quick, { catchUp: "1h", overlap: "allow" })]);
    await clock.advance("1m");
    await restart([schedule()], "1m");
    expect(await view()).toMatchObject({ paused: true });
    await clock.advance("1m");
    expect((await send("/schedules/each/resume", "POST")).body.data).toMatchObject({
      paused: false,
      nextAt: "2026-11-17T10:06:00.000Z",
    });
    await restart([schedule()], "1s"); // before the first tick after the pause
    await clock.advance("1m");
    expect(began).toEqual(["10:01:00", "10:06:00"]);
  });
});
