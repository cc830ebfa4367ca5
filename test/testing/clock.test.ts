import { AsyncLocalStorage } from "node:async_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import {
  createToken,
  defineAgent,
  defineWorkflow,
  embedded,
  jwtAuth,
  ServeError,
  type AuthProvider,
  type Backend,
  type Config,
} from "agentserve";
import { scriptedModel } from "agentserve/models";
import { createClock, createServer, type TestClock } from "agentserve/testing";
import { describe, expect, it, onTestFinished, vi } from "vitest";

const start = "2030-01-01T00:00:00.000Z";
const after = (ms: number): string => new Date(Date.parse(start) + ms).toISOString();
const hour = 3_600_000;

/** A server in memory whose clock starts at `start`. */
function serve(config: Config) {
  const clock = createClock({ now: start });
  const server = createServer(config, { clock });
  onTestFinished(() => server.close());
  const send = (path: string, init?: RequestInit) => server.fetch(new Request(`http://localhost${path}`, init));
  const toAnswer = async (response: Response) => ({ status: response.status, body: (await response.json()) as any });
  return {
    clock,
    server,
    get: async (path: string) => toAnswer(await send(path)),
    post: async (path: string, body: object, headers: Record<string, string> = {}) => {
      const init = { method: "POST", body: JSON.stringify(body) };
      return toAnswer(await send(path, { ...init, headers: { "content-type": "application/json", ...headers } }));
    },
    stateOf: async (workflow: string, id: string) =>
      (await toAnswer(await send(`/workflows/${workflow}/executions/${id}/state`))).body.data,
  };
}

/** A workflow whose step fails until its last attempt, and the times of its attempts. */
function flakyWorkflow(attempts: number, delay: number, clock: () => TestClock) {
  const times: number[] = [];
  const workflow = defineWorkflow({ id: "flaky" }).andThen({
    id: "call",
    retry: { attempts, delay, backoff: 1 },
    execute: ({ attempt }) => {
      times.push(clock().now() - Date.parse(start));
      if (attempt < attempts) throw new ServeError(503, "down");
      return { attempt };
    },
  });
  return { workflow, times };
}

describe("a clock that tests move", () => {
  it("advance makes retry delays of hours pass at once, each attempt at its time", async () => {
    const { workflow, times } = flakyWorkflow(4, hour, () => clock);
    const { clock, post } = serve({ workflows: [workflow] });
    const answer = post("/workflows/flaky/execute", { input: {} });
    await clock.advance("3h");
    const { body } = await answer;
    expect(times).toEqual([0, hour, 2 * hour, 3 * hour]);
    expect(body.data).toMatchObject({
      status: "completed",
      result: { attempt: 4 },
      startAt: start,
      endAt: after(3 * hour),
    });
  });

  it("advance leaves an execution running until its retry delay is over", async () => {
    const { workflow, times } = flakyWorkflow(2, hour, () => clock);
    const { clock, post, stateOf } = serve({ workflows: [workflow] });
    const answer = post("/workflows/flaky/execute", { input: {}, options: { executionId: "e" } });
    await clock.advance(hour - 1);
    expect([times.length, (await stateOf("flaky", "e")).status]).toEqual([1, "running"]);
    await clock.advance(1);
    expect([times.length, (await stateOf("flaky", "e")).status]).toEqual([2, "completed"]);
    expect((await answer).status).toBe(200);
  });

  it("advance ends a step at its time limit", async () => {
    const hangs = defineWorkflow({ id: "hangs" }).andThen({
      id: "wait",
      timeout: 60_000,
      execute: () => new Promise<never>(() => {}),
    });
    const { clock, post, server } = serve({ workflows: [hangs] });
    const answer = post("/workflows/hangs/execute", { input: {} });
    await clock.advance("59s");
    expect(server.logs()).toEqual([]);
    await clock.advance("1s");
    expect((await answer).status).toBe(500);
    expect(server.logs()).toMatchObject([
      { level: "error", message: "Step failed", timestamp: after(60_000), error: expect.stringContaining("60000 ms") },
    ]);
  });

  it("advance ends a model call without an answer, though the SDK is loaded during the first call", async () => {
    const opened = Promise.withResolvers<void>();
    const never = new Promise<never>(() => {});
    const model = scriptedModel([
      () => never,
      async function* () {
        await opened.promise;
        yield { type: "stream-start", warnings: [] };
        await never;
      },
    ]);
    const agents = [defineAgent({ id: "silent", instructions: "Be silent.", model })];
    const { clock, post } = serve({ agents, server: { limits: { modelFirstByteMs: 30_000 } } });
    const answer = post("/agents/silent/text", { input: "hi" });
    await clock.advance("30s");
    expect(await answer).toMatchObject({ status: 504 });
    // The time until a stream opens counts for its first part.
    const late = post("/agents/silent/text", { input: "hi", options: { conversationId: "c" } });
    await clock.advance("20s");
    opened.resolve();
    await clock.advance("29s");
    expect(await Promise.race([late, "no answer"])).toMatchObject({ status: 504 });
  });

  it("advance removes executions whose retention is over", async () => {
    const done = defineWorkflow({ id: "done" }).andThen({ id: "only", execute: () => 1 });
    const { clock, post, get } = serve({
      workflows: [done],
      backend: embedded({ path: ":memory:", retention: "1d" }),
    });
    await post("/workflows/done/execute", { input: {}, options: { executionId: "e" } });
    const status = async () => (await get("/workflows/done/executions/e/state")).status;
    await clock.advance("23h");
    expect(await status()).toBe(200);
    await clock.advance("2h");
    expect(await status()).toBe(404);
  });

  it("advance starts a new window of a rate limit", async () => {
    const secret = "only for tests, and at least 32 bytes";
    const done = defineWorkflow({ id: "done" }).andThen({ id: "only", execute: () => 1 });
    const { clock, post } = serve({
      workflows: [done],
      auth: jwtAuth({ secret }),
      server: { rateLimit: { limit: 1, window: "1h" } },
    });
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` };
    const status = async () => (await post("/workflows/done/execute", { input: {} }, headers)).status;
    expect([await status(), await status()]).toEqual([200, 429]);
    await clock.advance("1h");
    expect(await status()).toBe(200);
  });

  it("advance waits for the store to be open before it moves the clock", async () => {
    const locked = Promise.withResolvers<void>();
    const inner = embedded({ path: ":memory:" });
    const open: Backend["open"] = (parts) => {
      const opened = inner.open(parts);
      const openStore = opened.engine.open.bind(opened.engine);
      opened.engine.open = (mayServe) => locked.promise.then(() => openStore(mayServe));
      return opened;
    };
    const { workflow, times } = flakyWorkflow(2, hour, () => clock);
    const { clock, post } = serve({ workflows: [workflow], backend: { ...inner, open } });
    const answer = post("/workflows/flaky/execute", { input: {} });
    const advanced = clock.advance("1h");
    setTimeout(locked.resolve, 50);
    await advanced;
    expect((await answer).status).toBe(200);
    expect(times).toEqual([0, hour]);
  });

  it("advance waits for a token to be verified before it moves the clock", async () => {
    const auth: AuthProvider = {
      type: "slow",
      verifyToken: async () => (await sleep(50), { id: "ada" }),
    };
    const { workflow, times } = flakyWorkflow(2, hour, () => clock);
    const { clock, post } = serve({ workflows: [workflow], auth });
    const answer = post("/workflows/flaky/execute", { input: {} }, { authorization: "Bearer any" });
    await clock.advance("1h");
    expect((await answer).status).toBe(200);
    expect(times).toEqual([0, hour]);
  });

  it("stamps suspensions and results with the time of the test clock", async () => {
    const asks = defineWorkflow({ id: "asks" }).andThen({
      id: "ask",
      execute: ({ resumeData, suspend }) => resumeData ?? suspend("Approve?"),
    });
    const { clock, post } = serve({ workflows: [asks] });
    const first = await post("/workflows/asks/execute", { input: {}, options: { executionId: "e" } });
    expect(first.body.data.suspension.suspendedAt).toBe(start);
    await clock.advance("2h");
    const { body } = await post("/workflows/asks/executions/e/resume", { resumeData: { ok: true } });
    expect(body.data).toMatchObject({ startAt: start, endAt: after(2 * hour) });
  });
});

describe("advance", () => {
  it("advance calls timers in the order of their times, then in the order of setting", async () => {
    const clock = createClock({ now: 0 });
    const seen: [string, number][] = [];
    const set = (name: string, ms: number) => clock.setTimeout(() => void seen.push([name, clock.now()]), ms);
    set("c", 30);
    set("a", 10);
    set("b", 20);
    set("a2", 10);
    clock.clearTimeout(set("cleared", 5));
    set("later", 31);
    await clock.advance(30);
    expect(seen).toEqual([
      ["a", 10],
      ["a2", 10],
      ["b", 20],
      ["c", 30],
    ]);
    expect([clock.now(), clock.monotonic()]).toEqual([30, 30]);
  });

  it("advance calls a due timer that another timer has set, and adds up concurrent moves", async () => {
    const clock = createClock({ now: 0 });
    const times: number[] = [];
    const tick = (): void => void (times.push(clock.now()), clock.setTimeout(tick, 10));
    clock.setTimeout(tick, 10);
    await Promise.all([clock.advance(25), clock.advance("10ms")]);
    expect(times).toEqual([10, 20, 30]);
    expect(clock.now()).toBe(35);
  });

  it("advance rejects with the error of a timer, and can be called again", async () => {
    const clock = createClock({ now: 0 });
    clock.setTimeout(() => {
      throw new Error("broken");
    }, 5);
    await expect(clock.advance(10)).rejects.toThrow("broken");
    await clock.advance(10);
    expect(clock.now()).toBe(15);
  });

  it("advance calls a timer in the async context in which it was set", async () => {
    const clock = createClock();
    const storage = new AsyncLocalStorage<string>();
    const seen = vi.fn();
    storage.run("inner", () => clock.setTimeout(() => seen(storage.getStore()), 1));
    await storage.run("outer", () => clock.advance(1));
    expect(seen).toHaveBeenCalledWith("inner");
  });

  it.each([-1, Number.NaN, Infinity, "soon", "1 h"])("advance refuses %s", (by) => {
    expect(() => createClock().advance(by)).toThrow(`advance(): expected milliseconds or a duration such as`);
  });

  it("createClock refuses a start that is not a time", () => {
    expect(() => createClock({ now: "soon" })).toThrow("createClock({ now }): expected a time, found soon");
  });
});
