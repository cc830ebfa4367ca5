// A start without an id of the caller, by a caller that waits, gets a register while it runs. No request shows when.
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { patienceMs } from "../../harness/patience.ts";
import { until } from "../../harness/waiting.ts";
import { checkEvents, isOver, pathOf, Replicas, newTag, repeated, type Replica } from "./replicas.ts";

const timeout = 2 * patienceMs;
let replicas: Replicas;
let all: [Replica, Replica, Replica];
beforeAll(async () => {
  replicas = await Replicas.start();
  all = replicas.all as typeof all;
}, timeout);
afterAll(() => replicas?.close());

describe("an execution that takes long", () => {
  it("continues an execution without an id of the caller when the caller has left", { timeout }, async () => {
    const tag = newTag();
    const leaving = new AbortController();
    const init = { method: "POST", body: JSON.stringify({ input: { tag } }), signal: leaving.signal };
    const headers = { "content-type": "application/json" };
    const waiting = fetch(`${all[0].address}/workflows/gated/execute`, { ...init, headers });
    waiting.catch(() => {}); // checked below
    const id = await replicas.reached(tag, "s2");
    leaving.abort();
    await expect(waiting).rejects.toThrow();
    expect(await all[1].listed("gated", tag)).toMatchObject({ executionId: id, status: "running" });
    replicas.openGate(tag);
    expect(await all[2].listed("gated", tag, isOver)).toMatchObject({ status: "completed", result: `${tag} s3` });
    expect(replicas.stepsOf(tag)).toEqual(["s1", "s2", "s3"]);
  });
});

// A step knows the id of its execution, and may hand it out before anybody else knows it.
describe("an execution whose step has handed out its id", () => {
  /** Starts an execution. Resolves when its step has its id. */
  async function start() {
    const tag = newTag();
    const waiting = all[0].execute("gated", tag);
    return { tag, waiting, id: await replicas.reached(tag, "s2") };
  }

  it("knows an execution on every replica at once when its step has handed out its id", { timeout }, async () => {
    const { tag, waiting, id } = await start();
    const views = await replicas.onAll((replica) => replica.state("gated", id));
    expect(views.map((view) => view?.status)).toEqual(repeated("running"));
    const reading = replicas.onAll((replica) => replica.events("gated", id));
    replicas.openGate(tag);
    expect(await waiting).toMatchObject({ status: 200, id });
    for (const events of await reading) checkEvents(events, "completed");
  });

  it("refuses another start with the id of a running execution on every replica", { timeout }, async () => {
    const { tag, waiting, id } = await start();
    const other = newTag();
    const starts = await replicas.onAll((replica) => replica.execute("gated", other, {}, { executionId: id }));
    expect(starts.map(({ status }) => status)).toEqual(repeated(409));
    replicas.openGate(tag);
    expect(await waiting).toMatchObject({ status: 200, id, body: { data: { result: `${tag} s3` } } });
    expect(replicas.ran(other)).toEqual([]);
  });

  it("cancels or suspends an execution at any time of its first two seconds", { timeout: 2 * timeout }, async () => {
    const change = async (index: number): Promise<void> => {
      const { tag, waiting, id } = await start();
      await sleep(index * 100); // not to wait for anything: the moments differ
      const replica = all[index % 3]!;
      const path = pathOf("gated", id);
      if (index % 2 === 0) {
        expect((await replica.request(`${path}/cancel`, {})).status).toBe(200);
        expect((await waiting).status).toBe(409);
      } else {
        expect((await replica.request(`${path}/suspend`, {})).status).toBe(200);
        expect((await waiting).body.data).toMatchObject({ status: "suspended" });
        replicas.openGate(tag);
        const { status, body } = await replica.request(`${path}/resume`, {});
        expect([status, body.data?.result]).toEqual([200, `${tag} s3`]);
      }
      const status = index % 2 === 0 ? "error" : "completed";
      expect(await replica.listed("gated", tag)).toMatchObject({ executionId: id, status });
      await until(async () => (await replica.events("gated", id)).at(-1).status === status, "its last event");
      checkEvents(await replica.events("gated", id), status);
    };
    // A few at a time: a start of many takes longer than a second.
    for (let index = 0; index < 20; index += 2) await Promise.all([change(index), change(index + 1)]);
  });
});
