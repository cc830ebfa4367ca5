import { join } from "node:path";
import { andThen, defineWorkflow, embedded, type Config, type Retry } from "agentserve";
import { createClock, createServer, type Clock } from "agentserve/testing";
import fc from "fast-check";
import { describe, expect, it, onTestFinished } from "vitest";
import { createFolder } from "../harness/folders.ts";
import { within } from "../harness/waiting.ts";
import { toRetryDelay } from "../../src/engine/walk/entries.ts";

describe("a retry with a wrong value", () => {
  const wrong: [retry: unknown, problem: string][] = [
    [3, "retry: expected an object such as { attempts: 3 }, found 3"],
    [null, "retry: expected an object such as { attempts: 3 }, found null"],
    [[], "retry: expected an object such as { attempts: 3 }, found []"],
    [{}, "retry.attempts: expected a whole number from 1, or Infinity, found undefined"],
    [{ attempts: 0 }, "retry.attempts: expected a whole number from 1, or Infinity, found 0"],
    [{ attempts: 1.5 }, "retry.attempts: expected a whole number from 1, or Infinity, found 1.5"],
    [{ attempts: "3" }, 'retry.attempts: expected a whole number from 1, or Infinity, found "3"'],
    [{ attempts: NaN }, "retry.attempts: expected a whole number from 1, or Infinity, found NaN"],
    [{ attempts: 2, delay: -1 }, "retry.delay: expected milliseconds from 0, found -1"],
    [{ attempts: 2, delay: "1s" }, 'retry.delay: expected milliseconds from 0, found "1s"'],
    [{ attempts: 2, delay: Infinity }, "retry.delay: expected milliseconds from 0, found Infinity"],
    [{ attempts: 2, backoff: -2 }, "retry.backoff: expected a number from 0, found -2"],
    [{ attempts: 2, maxDelay: NaN }, "retry.maxDelay: expected milliseconds from 0, found NaN"],
    [{ attempts: 2, jitter: 1.01 }, "retry.jitter: expected a number from 0 to 1, found 1.01"],
    [{ attempts: 2, jitter: -0.1 }, "retry.jitter: expected a number from 0 to 1, found -0.1"],
    [{ attempts: 2, jitter: true }, "retry.jitter: expected a number from 0 to 1, found true"],
  ];
  it.for(wrong)("refuses a step or workflow with the retry %j when it is defined: %s", ([retry, problem]) => {
    const step = { id: "pay", retry: retry as Retry, execute: () => 1 };
    expect(() => andThen(step)).toThrow(`andThen pay: ${problem}`);
    expect(() => defineWorkflow({ id: "w" }).andTap(step)).toThrow(`andTap pay: ${problem}`);
    expect(() => defineWorkflow({ id: "shop", retry: retry as Retry })).toThrow(`Workflow shop: ${problem}`);
  });

  it("takes a retry whose values are at their bounds", () => {
    for (const retry of [
      { attempts: 1, delay: 0, backoff: 0, maxDelay: 0, jitter: 0 },
      { attempts: Infinity, jitter: 1, maxDelay: undefined } as unknown as Retry,
    ])
      expect(andThen({ id: "pay", retry, execute: () => 1 }).retry).toBe(retry);
  });
});

describe("the delay before an attempt", () => {
  const policy = fc.record(
    {
      attempts: fc.constant(9),
      delay: fc.integer({ min: 1, max: 100_000_000 }),
      backoff: fc.double({ min: 0, max: 100, noNaN: true }),
      maxDelay: fc.integer({ min: 0, max: 10_000_000 }),
      jitter: fc.double({ min: 0, max: 1, noNaN: true }),
    },
    { requiredKeys: ["attempts", "delay"] },
  );
  const attempt = fc.integer({ min: 1, max: 2_000 });

  it("makes each retry delay a whole number within its bounds, and the same for the same key", () => {
    let capped = 0;
    fc.assert(
      fc.property(policy, attempt, fc.string(), (retry, n, key) => {
        const found = toRetryDelay(retry, n, key);
        expect(Number.isSafeInteger(found)).toBe(true);
        expect(toRetryDelay(structuredClone(retry), n, `${key}`)).toBe(found);
        if (n === 1) return void expect(found).toBe(0);
        const { delay, backoff = 1, maxDelay = Infinity, jitter = 0 } = retry;
        const whole = Math.min(delay * backoff ** (n - 2), maxDelay, Number.MAX_SAFE_INTEGER);
        if (whole === maxDelay) capped++;
        expect(found).toBeLessThanOrEqual(Math.round(whole));
        expect(found).toBeGreaterThanOrEqual(Math.floor(whole * (1 - jitter)));
        if (jitter === 0) expect(found).toBe(Math.round(whole));
      }),
      { numRuns: 5_000 },
    );
    expect(capped).toBeGreaterThan(100);
  });

  it("spreads retry delays evenly over executions, steps and attempts by jitter", () => {
    const retry: Retry = { attempts: 9, delay: 1_000, jitter: 1 };
    const keys = Array.from({ length: 4_000 }, (_, index) => `order-${index}/pay`);
    for (const delays of [
      keys.map((key) => toRetryDelay(retry, 2, key)),
      keys.map((_, index) => toRetryDelay(retry, index + 2, "order/pay")),
      keys.map((_, index) => toRetryDelay(retry, 2, `order/pay${index}`)),
    ]) {
      const tenths = Array.from({ length: 10 }, () => 0);
      for (const delay of delays) tenths[Math.min(9, Math.floor(delay / 100))]!++;
      for (const count of tenths) expect(Math.abs(count - 400)).toBeLessThan(120);
    }
  });
});

const start = "2030-01-01T00:00:00.000Z";
function serve(config: Config) {
  const clock = createClock({ now: start });
  const server = createServer(config, { clock });
  let open = true;
  const close = async () => {
    if (open) await server.close();
    open = false;
  };
  onTestFinished(close);
  const json = { "content-type": "application/json" };
  const send = async (path: string, body?: object, headers: HeadersInit = json): Promise<any> => {
    const init = { method: "POST", body: JSON.stringify(body), headers };
    const response = await server.fetch(new Request(`http://localhost${path}`, body && init));
    return response.json();
  };
  return { clock, server, close, send };
}

describe("a step with delays", () => {
  /** The times of the attempts, by execution. */
  const times = new Map<string, number[]>();
  const toWorkflow = (retry: Retry, now: () => number) =>
    defineWorkflow({ id: "w", retry }).andThen({
      id: "pay",
      execute({ executionId, attempt }) {
        times.set(executionId, [...(times.get(executionId) ?? []), now()]);
        if (attempt < retry.attempts) throw new Error("Down");
        return "paid";
      },
    });
  const gapsOf = (id: string): number[] =>
    times.get(id)!.flatMap((time, index, all) => (index ? time - all[index - 1]! : []));
  const begin = { input: {}, options: { executionId: "" } };

  it("waits no longer than maxDelay before a retry", async () => {
    const { clock, send } = serve({
      workflows: [toWorkflow({ attempts: 6, delay: 1_000, backoff: 3, maxDelay: 10_000 }, () => clock.now())],
    });
    const answer = send("/workflows/w/execute", { ...begin, options: { executionId: "capped" } });
    await clock.advance("1h");
    expect((await answer).data).toMatchObject({ status: "completed", result: "paid" });
    expect(gapsOf("capped")).toEqual([1_000, 3_000, 9_000, 10_000, 10_000]);
  });

  it("waits for a part of the retry delay with jitter, as the log says, and not as other executions", async () => {
    const { clock, server, send } = serve({
      workflows: [toWorkflow({ attempts: 4, delay: 100_000, jitter: 0.5 }, () => clock.now())],
    });
    const answers = ["jitter-1", "jitter-2"].map((executionId) =>
      send("/workflows/w/execute", { ...begin, options: { executionId } }),
    );
    await clock.advance("1h");
    await Promise.all(answers);
    const gaps = [...gapsOf("jitter-1"), ...gapsOf("jitter-2")];
    expect(gaps).toHaveLength(6);
    expect(new Set(gaps).size).toBe(6);
    expect(Math.min(...gaps)).toBeGreaterThanOrEqual(50_000);
    expect(Math.max(...gaps)).toBeLessThanOrEqual(100_000);
    const logged = server.logs().filter(({ executionId }) => executionId === "jitter-1");
    const delays = logged.map(({ data }) => (data as { delayMs: number }).delayMs);
    expect(delays).toEqual(gapsOf("jitter-1"));
  });

  it("waits for the same retry delay again after a restart", async () => {
    const folder = createFolder("delays");
    const retry: Retry = { attempts: 3, delay: 100_000, backoff: 2, jitter: 1 };
    const whole = serve({ workflows: [toWorkflow(retry, () => whole.clock.now())] });
    const answer = whole.send("/workflows/w/execute", { ...begin, options: { executionId: "again" } });
    await whole.clock.advance("1h");
    await answer;
    const [first, second] = gapsOf("again") as [number, number];
    times.delete("again");

    const backend = () => embedded({ path: join(folder, "data.db") });
    const before = serve({ backend: backend(), workflows: [toWorkflow(retry, () => before.clock.now())] });
    void before.send("/workflows/w/execute", { ...begin, options: { executionId: "again" } });
    await before.clock.advance(first - 1);
    expect(gapsOf("again"), "the delay is not over").toEqual([]);
    await before.close();
    times.delete("again");

    const after = serve({ backend: backend(), workflows: [toWorkflow(retry, () => after.clock.now())] });
    await after.send("/workflows");
    await after.clock.advance(first - 1);
    expect(times.has("again"), "the whole delay begins again").toBe(false);
    await after.clock.advance(1);
    await after.clock.advance("1h");
    expect(times.get("again")![0]! - Date.parse(start)).toBe(first);
    expect(gapsOf("again")).toEqual([second]);
    const { data } = await after.send("/workflows/w/executions/again/state");
    expect(data).toMatchObject({ status: "completed", result: "paid" });
  });

  it("names the first step that waits for a retry in a suspension by request, also when no run is in memory", async () => {
    const weak = (id: string) =>
      andThen({ id, retry: { attempts: 2, delay: 3_600_000 }, execute: () => Promise.reject(new Error("Down")) });
    const both = defineWorkflow({ id: "both" }).andAll({ id: "all", steps: [weak("one"), weak("two")] });
    const { clock, send } = serve({ workflows: [both] });
    const headers = { "content-type": "application/json", prefer: "respond-async" };
    await send("/workflows/both/execute", { input: {}, options: { executionId: "first" } }, headers);
    await clock.advance("1m");
    await send("/workflows/both/executions/first/suspend", { reason: "A break" });
    const { data } = await send("/workflows/both/executions/first/state");
    expect(data.suspension).toMatchObject({ kind: "request", stepId: "one" });
  });

  it("starts a step again also if its retry delay ends while the run decides how long to wait", async () => {
    // Time passes with every look at the clock.
    let elapsed = 0;
    const begun = Date.parse(start);
    const clock: Clock = {
      now: () => begun + Math.floor((elapsed += 1)),
      monotonic: () => (elapsed += 1),
      setTimeout: (callback, ms) => setTimeout(callback, Math.min(ms, 2)),
      clearTimeout: (timer) => clearTimeout(timer as NodeJS.Timeout),
    };
    const delays = Array.from({ length: 24 }, (_, index) => index + 1);
    const workflows = delays.map((delay) =>
      defineWorkflow({ id: `w${delay}`, retry: { attempts: 3, delay } }).andThen({
        id: "pay",
        execute({ attempt }) {
          if (attempt < 3) throw new Error("Down");
          return "paid";
        },
      }),
    );
    const server = createServer({ workflows }, { clock });
    onTestFinished(() => server.close());
    const ask = async (delay: number): Promise<unknown> => {
      const init = { method: "POST", body: `{"input":{}}`, headers: { "content-type": "application/json" } };
      const response = await server.fetch(new Request(`http://localhost/workflows/w${delay}/execute`, init));
      return ((await response.json()) as { data: { result: unknown } }).data.result;
    };
    expect(await within(Promise.all(delays.map(ask)), "every delay to end")).toEqual(delays.map(() => "paid"));
  });
});
