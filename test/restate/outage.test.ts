import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";
import { readStream, seqsOf, type ReadEvent } from "./event-reader.ts";
import { Replicas, type Replica } from "./replicas.ts";
import { RestateServer } from "./restate-server.ts";

const timeout = 4 * patienceMs;
let server: RestateServer | undefined;
let replicas: Replicas | undefined;
afterEach(async () => {
  replicas?.close();
  await server?.remove();
});

interface Answer {
  readonly request: string;
  readonly status: number;
  readonly retryAfter: string | null;
  readonly ms: number;
}

/** One request of each kind. Those that change something have ids of their own. */
async function askAll(replica: Replica, suffix: string): Promise<Answer[]> {
  const path = "/workflows/ask/executions";
  const requests: Record<string, () => Promise<Response>> = {
    state: () => replica.get(`${path}/kept/state`),
    list: () => replica.get(path),
    stream: () => replica.get(`${path}/kept/stream`),
    execute: () => replica.post("/workflows/slow/execute", { input: {}, options: { executionId: `w${suffix}` } }),
    begin: () =>
      replica.post(
        "/workflows/slow/execute",
        { input: {}, options: { executionId: `a${suffix}` } },
        { prefer: "respond-async" },
      ),
    suspend: () => replica.post(`${path}/kept/suspend`, {}),
    resume: () => replica.post(`${path}/kept/resume`, { resumeData: {} }),
    cancel: () => replica.post(`${path}/kept/cancel`, {}),
  };
  return Promise.all(
    Object.entries(requests).map(async ([request, send]) => {
      const sentAt = performance.now();
      const response = await send();
      await response.text();
      const ms = Math.round(performance.now() - sentAt);
      return { request, status: response.status, retryAfter: response.headers.get("retry-after"), ms };
    }),
  );
}

/** Starts replicas on a Restate server of their own, with a suspended execution and calls that wait. */
async function startLoad(): Promise<{ ids: string[]; waiting: Promise<Response>[]; all: readonly Replica[] }> {
  server = await RestateServer.start();
  replicas = await Replicas.start({ ingress: [server.ingress], admin: server.admin, count: 2 });
  const { all } = replicas;
  expect(await all[0]!.execute("ask", "kept")).toBe("200 suspended");
  const ids = Array.from({ length: 20 }, (_, index) => `load${index}`);
  const waiting = ids.map((executionId, index) =>
    all[index % 2]!.post("/workflows/gated/execute", { input: {}, options: { executionId } }),
  );
  await until(() => ids.every((id) => hasStarted(all, id)), "the second step of every execution");
  return { ids, waiting, all };
}
const hasStarted = (all: readonly Replica[], id: string): boolean =>
  all.some(({ steps }) => steps.some((one) => one.id === id && one.step === "s2"));

/** Starts executions one after the other on each replica, until one is refused. Resolves to those that were acknowledged. */
async function beginUntilRefused(all: readonly Replica[]): Promise<string[]> {
  const acknowledged: string[] = [];
  let count = 0;
  const beginOn = async (replica: Replica): Promise<void> => {
    for (;;) {
      const id = `begun${count++}`;
      if ((await replica.begin("gated", id)) !== 202) return;
      acknowledged.push(id);
    }
  };
  await Promise.all(all.map(beginOn));
  return acknowledged;
}

/** The calls that waited are refused, and say which execution to ask for later. */
async function checkWaiting(waiting: readonly Promise<Response>[], ids: readonly string[]): Promise<void> {
  for (const [index, call] of waiting.entries()) {
    const { status, headers } = await call;
    expect([status, headers.get("x-execution-id")]).toEqual([503, ids[index]]);
    expect(headers.get("retry-after")).not.toBeNull();
  }
}

/** Everything that was acknowledged completes, and its events are whole. */
async function checkComplete(all: readonly Replica[], ids: readonly string[]): Promise<void> {
  replicas!.openGate();
  for (const id of ids) {
    await until(async () => (await all[0]!.state("gated", id))?.status === "completed", `the end of ${id}`);
    checkEvents(await readStream(all[1]!, streamOf(id)));
  }
}

const streamOf = (id: string): string => `/workflows/gated/executions/${id}/stream`;

/** Every event has come once, up to the end. */
function checkEvents(events: readonly ReadEvent[]): void {
  const seqs = seqsOf(events);
  expect(seqs).toEqual(seqs.map((_, index) => index + 1));
  expect(events.at(-1)).toMatchObject({ type: "workflow-result", status: "completed" });
}

/** A proxy of an ingress, which refuses calls on demand. */
async function startProxy(target: string): Promise<{ readonly url: string; fails: boolean; count: number }> {
  const listener = createServer(async (request, response) => {
    proxy.count++;
    if (proxy.fails) return void response.socket?.destroy();
    const { method = "GET", url } = request;
    const body = method === "GET" ? undefined : new Uint8Array(await buffer(request));
    const init = { method, headers: { "content-type": "application/json" }, ...(body?.length && { body }) };
    const answer = await fetch(target + url, init).catch(() => undefined);
    if (!answer) return void response.socket?.destroy();
    response.writeHead(answer.status).end(await answer.text());
  });
  await new Promise<void>((resolve) => listener.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void listener.close());
  const { port } = listener.address() as AddressInfo; // it listens on a port
  const proxy = { url: `http://127.0.0.1:${port}`, fails: false, count: 0 };
  return proxy;
}

describe("an outage of Restate", () => {
  it("/ready is 503 while Restate is down, and stays 200 after one call that failed", { timeout }, async () => {
    server = await RestateServer.start();
    const ingress = await startProxy(server.ingress);
    replicas = await Replicas.start({ ingress: [ingress.url], admin: server.admin, count: 1 });
    const replica = replicas.all[0]!;
    const state = async (): Promise<number> => (await replica.get("/workflows/ask/executions/none/state")).status;
    const ready = async (): Promise<number> => (await replica.get("/ready")).status;
    ingress.fails = true;
    expect(await state()).toBe(503);
    ingress.fails = false;
    // Long enough for three checks: they are a second apart, and the first one after a failure asks Restate itself.
    const asked = ingress.count;
    const checks = new Set<number>();
    const begunAt = performance.now();
    await until(async () => {
      checks.add(await ready());
      return ingress.count > asked && performance.now() - begunAt > 4_000;
    }, "checks");
    expect([...checks]).toEqual([200]);
    await server.kill();
    expect(await state()).toBe(503);
    await until(async () => (await ready()) === 503, "a replica that is not ready");
    await server.run();
    await until(async () => (await ready()) === 200, "a replica that is ready");
  });

  it("answers 503 within 2 s while Restate is down, and loses nothing", { timeout }, async () => {
    const { ids, waiting, all } = await startLoad();
    const streams = Promise.all(ids.slice(0, 10).map((id, index) => readStream(all[index % 2]!, streamOf(id))));
    streams.catch(() => {}); // reported below
    const beginning = beginUntilRefused(all);
    await until(() => hasStarted(all, "begun20"), "executions that begin");
    await server!.kill();
    const begun = await beginning;
    const answers: Answer[] = [];
    for (let round = 0; round < 3; round++) {
      for (const [index, replica] of all.entries()) answers.push(...(await askAll(replica, `${round}-${index}`)));
      await sleep(300);
    }
    expect(answers.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null)).toEqual([]);
    const slowest = Math.max(...answers.map(({ ms }) => ms));
    console.log("Restate is down: slowest answer in ms:", slowest);
    expect(slowest).toBeLessThan(2_000);
    await checkWaiting(waiting, ids);
    expect((await all[0]!.get("/workflows")).status).toBe(200);

    const restartedAt = performance.now();
    await server!.run();
    let [tries, status] = [0, 0];
    // A start that took too long may have been accepted: each has an id of its own.
    await until(
      async () => (status = await all[0]!.begin("ask", `after${++tries}`)) === 202,
      () => `a start, not ${status}`,
    );
    console.log("Restate is back: first start accepted after ms:", Math.round(performance.now() - restartedAt));
    await checkComplete(all, [...ids, ...begun]);
    for (const events of await streams) checkEvents(events); // opened before, and never interrupted
    expect((await all[1]!.state("ask", "kept"))?.status).toBe("suspended");
  });

  it("answers 503 in bounded time while Restate hangs, and loses nothing", { timeout }, async () => {
    const { ids, waiting, all } = await startLoad();
    server!.pause();
    const answers = (await Promise.all(all.map((replica, index) => askAll(replica, `h-${index}`)))).flat();
    await checkWaiting(waiting, ids);
    server!.continue();
    expect(answers.filter(({ status, retryAfter }) => status !== 503 || retryAfter === null)).toEqual([]);
    const slowestOf = (names: readonly string[]): number =>
      Math.max(...answers.filter(({ request }) => names.includes(request)).map(({ ms }) => ms));
    const [read, write] = [slowestOf(["state", "stream"]), slowestOf(answers.map(({ request }) => request))];
    console.log("Restate hangs: slowest read and write in ms:", read, write);
    // Half a second for the machine, beside the time limits of the calls.
    expect(read).toBeLessThan(2_500);
    expect(write).toBeLessThan(7_500); // `suspend` and `cancel` read the state before they write
    await checkComplete(all, ids);
  });
});
