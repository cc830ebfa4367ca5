// Every tenth model call, store write and socket write fails or stalls. The oracle is the one of the kills: nothing that was
// acknowledged is lost, nothing that was recorded runs again, one resume wins, events come once and in order. A seed repeats
// the plans and the order of the faults, not the moments at which they happen. SEED=<n> SEEDS=1 runs one.
import { closeSync, mkdtempSync, openSync, rmSync, writeSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { toProject } from "../../../src/config/load.ts";
import type { Logger } from "../../../src/core/log.ts";
import { embedded } from "../../../src/index.ts";
import { openServer } from "../../../src/server/create.ts";
import { withBounds } from "../../harness/bounds.ts";
import { seed as first } from "../../harness/seed.ts";
import { bySize } from "../../harness/size.ts";
import { until, within } from "../../harness/waiting.ts";
import { Log } from "../kills/log.ts";
import { Random, randomPlan } from "../kills/plan.ts";
import { createWorkflows } from "../kills/workload.ts";
import { noFigures, World } from "../kills/world.ts";
import { faultKinds, Faults } from "./faults.ts";
import { createFaultyAgent } from "./model.ts";
import { createFaultyProxy } from "./proxy.ts";
import { FaultyServing } from "./serving.ts";
import { createFaultyStore } from "./store.ts";
import { Talker } from "./talker.ts";

const seeds = Number(process.env["SEEDS"] ?? bySize(4, 20));
const executions = bySize(60, 200);
const conversations = 20;
const turns = bySize(3, 10);
/** Seeds that run at the same time, because a run waits now and then. */
const beside = 2;
const timeout = bySize(600_000, 7_200_000);

/** What a server may log while it is treated like this. */
const expected =
  /^(Step (attempt failed|failed|aborted)|The store cannot be written|Model call|An event could not be handed out; it is tried again)/;

describe("a server whose model, store and sockets fail every tenth time", () => {
  it(`keeps every promise, and ends everything once the faults stop (${seeds} seeds)`, { timeout }, async () => {
    const made = new Map<string, number>();
    const rest = Array.from({ length: seeds }, (_, index) => first + index).values();
    async function work(): Promise<void> {
      for (const seed of rest)
        await play(seed, made).catch((error: unknown) => {
          throw new Error(`SEED=${seed} SEEDS=1 repeats it`, { cause: error });
        });
    }
    await Promise.all(Array.from({ length: Math.min(beside, seeds) }, work));
    // Otherwise it would show nothing.
    if (seeds >= 12) for (const fault of [...faultKinds, "503"]) expect(made.get(fault), fault).toBeGreaterThan(0);
    console.log(`layer: ${seeds} seeds from SEED=${first}: ${show(made)}`);
  });
});

const show = (counts: Map<string | number, number>): string =>
  [...counts]
    .map(([name, count]) => `${name} ${count}`)
    .toSorted()
    .join(", ");

async function play(seed: number, made: Map<string, number>): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-layer-"));
  const file = join(folder, "data.db");
  const faults = new Faults(seed);
  const store = createFaultyStore(file, faults);
  const talk = createFaultyAgent(faults);
  const log = openSync(join(folder, "log"), "a");
  const write = (line: string): void => void writeSync(log, `${line}\n`);
  write("life 1");
  const bounds = { modelFirstByteMs: 300, modelGapMs: 300, sseStallMs: 1_000, drainMs: 2_000 };
  const config = { agents: [talk.agent], workflows: createWorkflows(write), backend: embedded({ path: file }) };
  const server = openServer(toProject(withBounds(bounds, config)), { mode: "start", logger: toLogger(write) });
  const { url } = await server.listen({ port: 0 });
  const port = Number(new URL(url).port);
  faults.start();
  const doc = (await (await fetch(`${url}/doc`)).json()) as never;
  const proxy = await createFaultyProxy(port, faults);
  const serving = new FaultyServing({ url: proxy.url, doc, log: new Log(join(folder, "log")), store });
  const figures = noFigures();
  const world = new World(serving, figures);
  const talkers = Array.from({ length: conversations }, (_, index) => new Talker(`c${index}`, serving, talk));
  const sleepers: Socket[] = [];
  try {
    const random = new Random(seed);
    const running = Array.from({ length: executions }, () => {
      const n = world.take();
      return world.run(randomPlan(new Random(seed * 7_919 + n), n));
    });
    let ended = 0;
    for (const one of running) void one.then(() => ended++).catch(() => {}); // awaited below
    const talking = talkers.map(async (talker) => {
      for (let turn = 0; turn < turns; turn++) await talker.ask();
    });
    for (let count = 0; count < 20; count++) sleepers.push(openSleeper(port, `e${random.between(1, executions)}`));
    const working = Promise.all([...running, ...talking]);
    working.catch((error: unknown) => serving.fail(error));
    await serving.unlessBroken(Promise.all(talking));
    await until(() => ended > executions / 2, "half of the executions to end in spite of the faults");
    faults.stop();
    await serving.unlessBroken(working);
    await serving.unlessBroken(world.finish());
    for (const talker of talkers) await talker.check();
    // About half of them meet a fault.
    expect(talkers.reduce((sum, { answers }) => sum + answers, 0)).toBeGreaterThan((conversations * turns) / 4);
    for (const [kind, count] of faults.made) made.set(kind, (made.get(kind) ?? 0) + count);
    for (const [status, count] of serving.statuses) made.set(`${status}`, (made.get(`${status}`) ?? 0) + count);
    made.set("cut answers", (made.get("cut answers") ?? 0) + serving.cuts);
    for (const name of ["executions", "eventsStored"] as const) made.set(name, (made.get(name) ?? 0) + figures[name]);
    expect(serving.cuts).toBeGreaterThan(0);
  } finally {
    faults.stop();
    for (const socket of sleepers) socket.destroy();
    await world.close();
    await within(server.close(), "the server to close");
    await proxy.close();
    store.close();
    closeSync(log);
    rmSync(folder, { recursive: true, force: true });
  }
}

/** A reader that asks for the events of an execution, and never reads. */
function openSleeper(port: number, id: string): Socket {
  const socket = connect(port, "127.0.0.1");
  socket.pause();
  socket.on("error", () => {}); // the server may cut it
  socket.write(`GET /workflows/line/executions/${id}/stream HTTP/1.1\r\nhost: localhost\r\n\r\n`);
  return socket;
}

function toLogger(write: (line: string) => void): Logger {
  const nothing = (): void => {};
  const complain = (message: string, data?: Record<string, unknown>): void => {
    if (!expected.test(message))
      write(`complaint ${message} ${String((data?.["error"] as Error)?.stack)}`.replaceAll("\n", " "));
  };
  return { trace: nothing, debug: nothing, info: nothing, warn: complain, error: complain, fatal: complain };
}
