// Thousands of executions over 50 keys, while the server is killed: the rules of `concurrency` are read from what the steps
// themselves have written to a file.
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import fc from "fast-check";
import { expect, it } from "vitest";
import { Lives } from "../../harness/lives.ts";
import { bySize } from "../../harness/size.ts";
import { until, within } from "../../harness/waiting.ts";

const keys = 50;
/** Keys that a third of the executions share. */
const crowded = 5;
/** The requests at a time. */
const senders = 32;
const begins = bySize(600, 10_000);

const plan = fc.record({
  limit: fc.integer({ min: 1, max: 4 }),
  running: fc.integer({ min: 5, max: 150 }),
  // Not three of them: the server suspends an execution that three crashes in a row have interrupted, and a server may be
  // killed before it has ended any.
  kills: fc.tuple(fc.integer({ min: 40, max: 65 }), fc.integer({ min: 65, max: 95 })),
  /** The work of each execution, repeated. */
  work: fc.array(fc.record({ ms: fc.nat({ max: 4 }), kind: fc.nat({ max: 19 }) }), { minLength: 7, maxLength: 97 }),
});
type Plan = typeof plan extends fc.Arbitrary<infer T> ? T : never;

/** One server after another on the same file. */
class GroupedLives extends Lives {
  /** Sends a request until it is answered. */
  async ask(path: string, json?: unknown): Promise<{ status: number; body: any }> {
    const headers = { "content-type": "application/json", prefer: "respond-async" };
    const init = json === undefined ? {} : { method: "POST", headers, body: JSON.stringify(json) };
    for (;;) {
      const sent = await this.fetch(path, init);
      const text = await sent?.response.text().catch((error: unknown) => this.sawDeath(sent.life, error));
      if (text === undefined) continue;
      return { status: sent!.response.status, body: path === "/metrics" ? text : JSON.parse(text) };
    }
  }
}

interface Sent {
  readonly id: string;
  readonly key: string;
  readonly isCancelled: boolean;
  readonly asks: boolean;
}

async function play({ limit, running, kills, work }: Plan): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-concurrency-"));
  const log = join(folder, "log");
  const lives = new GroupedLives(folder, join(import.meta.dirname, "grouped-app.ts"), { limit, running });
  const sent: Sent[] = [];
  const at = (id: string, verb: string) => `/workflows/grouped/executions/${id}/${verb}`;
  const over = new AbortController();
  try {
    await lives.start();
    let next = 0;
    const send = async (end: number): Promise<void> => {
      while (next < end) {
        const n = next++;
        const { ms, kind } = work[n % work.length]!;
        const key = `k${n % 3 === 0 ? n % crowded : n % keys}`;
        const one = { id: `e${n}`, key, isCancelled: kind === 0, asks: kind === 1 };
        const { id: executionId, asks } = one;
        const { status } = await lives.ask("/workflows/grouped/execute", {
          input: { key, ms, asks },
          options: { executionId },
        });
        expect([202, 409]).toContain(status); // 409: the answer to the first try was lost
        sent.push(one);
        if (one.isCancelled) expect([200, 400]).toContain((await lives.ask(at(executionId, "cancel"), {})).status);
      }
    };
    const sendUpTo = (percent: number) =>
      Promise.all(Array.from({ length: senders }, () => send((begins * percent) / 100)));
    await within(sendUpTo(30), "the first starts");
    // No step has ended: as many run as may.
    const live = sent.filter(({ isCancelled }) => !isCancelled);
    const inKeys = [...Map.groupBy(live, ({ key }) => key).values()].map((group) => Math.min(group.length, limit));
    const most = Math.min(running, sumOf(inKeys));
    await until(() => countOpen(readFileSync(log, "utf8")) === most, `${most} executions to run`);
    const queued = /executions_queued (\d+)/.exec((await lives.ask("/metrics")).body)![1];
    expect(Number(queued)).toBe(live.length - most);
    const sending = sendUpTo(100);
    const isSent = (percent: number) => until(() => sent.length >= (begins * percent) / 100, `${percent} % to be sent`);
    await lives.order("open");
    const others = (async () => {
      // A workflow without a limit is answered all the time.
      let answered = 0;
      while (!over.signal.aborted) {
        expect((await lives.ask("/workflows/free/execute", { input: {} })).status).toBe(202);
        answered++;
        await sleep(20);
      }
      return answered;
    })();
    for (const percent of kills) {
      await isSent(percent);
      await lives.kill();
      await lives.start();
      await lives.order("open");
    }
    await within(sending, "all starts");
    const list = "/workflows/grouped/executions?status=running&limit=1";
    const settle = () =>
      until(async () => (await lives.ask(list)).body.data.items.length === 0, "all executions to end or be suspended");
    await settle();
    for (const { id } of sent.filter(({ asks }) => asks))
      expect((await lives.ask(at(id, "resume"), { resumeData: true })).status).toBe(202);
    await settle();
    over.abort();
    expect(await others).toBeGreaterThan(0);
    await lives.kill();
    check(readFileSync(log, "utf8"), inOrder(join(folder, "data.db"), sent), limit);
  } finally {
    over.abort();
    await lives.close();
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** The executions, each of which has ended, in the order of their starts: that of the file. */
function inOrder(file: string, sent: readonly Sent[]): Sent[] {
  const db = new DatabaseSync(file, { readOnly: true });
  const rows = db.prepare("select id, status from executions where workflow = 'grouped' order by number").all();
  db.close();
  expect(rows).toHaveLength(begins);
  const byId = new Map(sent.map((one) => [one.id, one]));
  return rows.map(({ id, status }) => {
    const one = byId.get(String(id))!;
    expect(one.isCancelled ? ["error", "completed"] : ["completed"], one.id).toContain(status);
    return one;
  });
}

const sumOf = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0);
/** How many executions run, by the log of the first life. */
const countOpen = (log: string): number => (log.match(/^begin/gm)?.length ?? 0) - (log.match(/^end/gm)?.length ?? 0);

/** Reads the rules from the log. */
function check(log: string, sent: readonly Sent[], limit: number): void {
  const open = new Map<string, Set<string>>();
  const seen = new Map<string, string[]>();
  const orders: string[][] = [];
  let order = new Map<string, string[]>();
  for (const line of log.trimEnd().split("\n")) {
    const [what, key = "", id = ""] = line.split(" ");
    if (what === "life") {
      orders.push(...order.values());
      order = new Map();
      open.clear();
      continue;
    }
    const inside = open.get(key) ?? new Set();
    open.set(key, inside);
    if (what === "end") inside.delete(id);
    if (what !== "begin") continue;
    inside.add(id);
    expect(inside.size, `${[...inside].join()} of ${key} at once`).toBeLessThanOrEqual(limit);
    if (!seen.get(key)?.includes(id)) seen.set(key, [...(seen.get(key) ?? []), id]);
    order.set(key, [...(order.get(key) ?? []), id]);
  }
  orders.push(...order.values());
  // First come, first served, once over all lives and in each life: those that a kill interrupted come before those that
  // waited. Up to `limit` executions have their turn at the same time, and may begin in any order.
  const places = new Map(sent.map(({ id }, place) => [id, place]));
  const asking = new Set(sent.filter(({ asks }) => asks).map(({ id }) => id)); // a resume is behind all others
  for (const ids of [...seen.values(), ...orders]) {
    const begun = ids.filter((id) => !asking.has(id)).map((id) => places.get(id)!);
    const left = begun.toSorted((a, b) => a - b);
    for (const place of begun) {
      const passed = left.indexOf(place);
      expect(passed, `executions that ${sent[place]!.id} has passed`).toBeLessThan(limit);
      left.splice(passed, 1);
    }
  }
  // None is left out.
  const all = new Set([...seen.values()].flat());
  expect(sent.filter(({ id, isCancelled }) => !isCancelled && !all.has(id))).toEqual([]);
}

it(
  `keeps to the limit and the order of each key over ${begins} executions of ${keys} keys, also over kills`,
  { timeout: 1_800_000 },
  async () => {
    await fc.assert(fc.asyncProperty(plan, play), { numRuns: bySize(1, 5), endOnFailure: true });
  },
);
