// Each of these changes makes a test of this file fail: a named turn that does not replace its messages, or sees them; an id that
// is forgotten with the first of its messages; a cut in the middle of a named turn that keeps its range; a page that is not read.
import { randomUUID } from "node:crypto";
import { embedded } from "agentserve";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { restate } from "../../src/backends/restate/define.ts";
import { constants, defaultLimits } from "../../src/config/limits.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import type { Conversations, History, MessageRow, StoredMessage } from "../../src/engine/contract/conversations.ts";
import { patienceMs, patientTimeouts } from "../harness/patience.ts";
import { createTestLogger } from "../harness/server.ts";
import { query } from "./replica-process.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

interface Store {
  readonly name: string | undefined;
  readonly until: string | undefined;
  readonly messages: readonly StoredMessage[];
}
const ids = ["a", "b", "c", "d", "", "line"];
const kind = fc.record({
  id: fc.constantFrom(...ids, "e", "f"),
  role: fc.constantFrom("user", "assistant"),
  count: fc.integer({ min: 0, max: 9 }),
});
const toMessages = fc
  .tuple(fc.integer({ min: 0, max: 70 }), fc.array(kind, { minLength: 1, maxLength: 8 }))
  .map(([count, kinds]) => Array.from({ length: count }, (_, index) => ({ ...kinds[index % kinds.length]!, index })));
const store = fc.record({
  name: fc.option(fc.constantFrom("x", "y"), { nil: undefined }),
  until: fc.option(fc.constantFrom(...ids), { nil: undefined, freq: 3 }),
  messages: toMessages,
});

const toMessage = (models: string): StoredMessage => ({ id: "m", role: "user", models, count: 1, ui: "{}", at: 0 });

describe("a conversation on Restate", () => {
  const service = `store-${randomUUID()}`;
  const opened: { readonly close: () => Promise<void> }[] = [];
  let stores: [Conversations, Conversations];

  async function open(backend: Backend, conversationBytes = 8_388_608): Promise<Conversations> {
    const { engine, conversations } = backend.open({
      ...defaultLimits,
      ...constants,
      conversationBytes,
      root: import.meta.dirname,
      logger: createTestLogger([]),
    });
    await engine.open();
    await engine.recover();
    opened.push({ close: () => engine.close({ drainMs: 0 }) });
    return conversations;
  }
  beforeAll(async () => {
    stores = [
      await open(embedded({ path: ":memory:" })),
      await open(restate({ ingress, admin, name: service, serve: { port: 0 }, timeouts: patientTimeouts })),
    ];
  });
  afterAll(() => Promise.all(opened.map((one) => one.close())));

  /** The histories before and after a store, as the turn sees them, and pages of the messages. */
  async function play(conversations: Conversations, conversationId: string, { name, until, messages }: Store) {
    const { signal } = new AbortController();
    const turn = await conversations.open({ agentId: "a", conversationId }, { name, signal });
    const seen: History[] = [];
    const pages: (readonly MessageRow[])[] = [];
    try {
      for (const each of [undefined, ...ids]) seen.push(await turn.history(each));
      await turn.store(messages, until);
      seen.push(await turn.history());
      for (const before of [undefined, ...ids])
        pages.push(await conversations.read({ agentId: "a", conversationId }, { before, limit: 60 }));
      return { seen, pages: pages.map((rows) => rows.map((row) => ({ ...row, number: 0 }))) };
    } finally {
      turn.close();
    }
  }

  it("a conversation has the same messages as on embedded", { timeout: 10 * patienceMs }, async () => {
    let turns = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(store, { minLength: 1, maxLength: 12, size: "max" }), async (commands) => {
        const conversationId = randomUUID();
        for (const { messages, ...place } of commands) {
          turns++;
          const texts = messages.map(({ index, ...message }) => ({
            ...message,
            ui: JSON.stringify({ turns, index }),
            models: JSON.stringify([turns, index]),
            at: turns,
          }));
          const command = { ...place, messages: texts };
          const [expected, found] = await Promise.all(stores.map((one) => play(one, conversationId, command)));
          expect(found).toEqual(expected);
        }
      }),
      { numRuns: 20, endOnFailure: true }, // to make a failure smaller takes many minutes
    );
    expect(turns).toBeGreaterThan(40);
  });

  it("a conversation on Restate shows as much of long messages as on embedded", { timeout: patienceMs }, async () => {
    const conversationId = randomUUID();
    const message = toMessage(JSON.stringify("é".repeat(1_000_000)));
    const command = { name: undefined, until: undefined, messages: [message, message, message] };
    for (let times = 0; times < 2; times++) {
      const [expected, found] = await Promise.all(stores.map((one) => play(one, conversationId, command)));
      const lengths = ({ seen }: { seen: History[] }) => seen.map(({ messages }) => messages.length);
      expect(lengths(found!)).toEqual(lengths(expected!));
      expect(found!.seen.at(-1)!.messages.length).toBe(times === 0 ? 3 : 4);
    }
  });

  it("reads a conversation that is larger than an answer of Restate", { timeout: 10 * patienceMs }, async () => {
    const name = `store-${randomUUID()}`;
    const backend = restate({ ingress, admin, name, serve: { port: 0 }, timeouts: patientTimeouts });
    const conversations = await open(backend, 40_000_000);
    const { signal } = new AbortController();
    const turn = await conversations.open({ agentId: "a", conversationId: "c" }, { signal });
    const bodies = Array.from({ length: 4 }, (_, n) => JSON.stringify(String(n).repeat(12_000_000)));
    for (const body of bodies) await turn.store([toMessage(body)]);
    const { messages, omitted } = await turn.history();
    turn.close();
    expect(messages.map(({ models }, index) => models === bodies[index + 1])).toEqual([true, true, true]);
    expect(omitted).toBe(1);
  });

  it("refuses a turn that Restate cannot take", { timeout: patienceMs }, async () => {
    const conversationId = randomUUID();
    const message = toMessage("x".repeat(31_000_000));
    const command = { name: undefined, until: undefined, messages: [message] };
    await expect(play(stores[1], conversationId, command)).rejects.toMatchObject({ status: 413 });
  });

  it("takes nothing from a turn whose place was dropped, and aborts it", { timeout: patienceMs }, async () => {
    const [, conversations] = stores;
    const key = { agentId: "a", conversationId: randomUUID() };
    const { signal } = new AbortController();
    const turn = await conversations.open(key, { signal });
    await turn.store([toMessage("0")]);
    await turn.store([toMessage("1")]);
    const own = `${service}.conversation/${encodeURIComponent(JSON.stringify(["a", null, key.conversationId]))}`;
    const [id] = await placesOf(service, key.conversationId);
    // Calls whose answer was lost are sent again.
    for (const number of [1, 2]) await post(`${ingress}/${own}/store`, { id, number, messages: [toMessage("again")] });
    await post(`${ingress}/${own}/sync`, { leave: [id], enter: [], keep: [] }); // as a sweep does
    await expect(turn.history()).rejects.toMatchObject({ status: 503 });
    await expect(turn.store([toMessage("2")])).rejects.toMatchObject({ status: 503 });
    await expect.poll(() => turn.signal!.aborted, { timeout: patienceMs }).toBe(true);
    const next = await conversations.open(key, { signal });
    expect((await next.history()).messages.map(({ models }) => models)).toEqual(["0", "1"]);
    next.close();
  });

  it("gives the turn of a named step to its second run", { timeout: patienceMs }, async () => {
    const [, conversations] = stores;
    const key = { agentId: "a", conversationId: randomUUID() };
    const { signal } = new AbortController();
    const first = await conversations.open(key, { name: "x", signal });
    const other = conversations.open(key, { signal });
    const second = conversations.open(key, { name: "x", signal });
    await expect.poll(() => first.signal!.aborted, { timeout: patienceMs }).toBe(true);
    await expect(first.store([toMessage("1")])).rejects.toMatchObject({ status: 503 });
    (await other).close(); // the second run is at the end of the line
    await (await second).store([toMessage("2")]);
    expect((await (await second).history()).stored).toBe(false);
    (await second).close();
  });

  it("keeps no invocation and no line after the last turn of a conversation", { timeout: patienceMs }, async () => {
    const [, conversations] = stores;
    const key = { agentId: "a", conversationId: randomUUID() };
    const { signal } = new AbortController();
    const turns = Array.from({ length: 3 }, () => conversations.open(key, { signal }));
    for (const turn of turns) {
      await (await turn).store([toMessage("1")]);
      (await turn).close();
    }
    const left = async () => [await countInvocations(service), await placesOf(service, key.conversationId)];
    await expect.poll(left, { timeout: patienceMs }).toEqual([0, []]);
  });

  it("keeps no place in a conversation for a server that was closed", { timeout: patienceMs }, async () => {
    const conversationId = randomUUID();
    const closed = restate({ ingress, admin, name: `store-${randomUUID()}`, serve: { port: 0 } });
    const conversations = await open(closed);
    await open(closed); // Restate calls the replica that was registered last
    const calls = [new AbortController(), new AbortController()] as const;
    const turn = await conversations.open({ agentId: "a", conversationId }, calls[0]);
    const waiting = conversations.open({ agentId: "a", conversationId }, calls[1]);
    const name = String(closed.settings!["name"]);
    await expect.poll(() => placesOf(name, conversationId), { timeout: patienceMs }).toHaveLength(2);
    calls[1].abort(new Error("closed"));
    await expect(waiting).rejects.toThrow("closed");
    turn.close();
    await opened.at(-2)!.close();
    expect(await placesOf(name, conversationId)).toEqual([]);
    await opened.at(-1)!.close();
    expect(await countInvocations(name)).toBe(0); // Restate has nothing to call
  });
});

async function post(url: string, body: unknown): Promise<void> {
  const headers = { "content-type": "application/json" };
  expect((await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })).status).toBe(200);
}

async function countInvocations(service: string): Promise<number> {
  const count = `select count(*) as n from sys_invocation where target_service_name like '${service}%'`;
  return (await query<{ n: number }>(count))[0]!.n;
}

/** The ids of the places in the line of a conversation. */
async function placesOf(service: string, conversationId: string): Promise<string[]> {
  const rows = await query<{ line: string }>(`select value_utf8 as line from state
    where service_name = '${service}.conversation'
    and service_key = '${JSON.stringify(["a", null, conversationId])}' and key = 'line'`);
  const { places } = JSON.parse(rows[0]?.line ?? '{"places":[]}') as { places: { id: string }[] };
  return places.map(({ id }) => id);
}
