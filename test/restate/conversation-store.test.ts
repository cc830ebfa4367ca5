// Each of these changes makes a test of this file fail: a named turn that does not replace its messages, or sees them; an id that
// is forgotten with the first of its messages; a cut in the middle of a named turn that keeps its range; a page that is not read.
import { randomUUID } from "node:crypto";
import { embedded } from "agentserve";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { restate } from "../../src/backends/restate/define.ts";
import { defaultLimits } from "../../src/config/limits.ts";
import type { Backend } from "../../src/engine/backend.ts";
import type { Conversations, History, StoredMessage } from "../../src/engine/conversations.ts";
import { patienceMs } from "../harness/patience.ts";
import { createTestLogger } from "../harness/server.ts";

const { TEST_RESTATE_INGRESS: ingress = "", TEST_RESTATE_ADMIN: admin = "" } = process.env;

interface Store {
  readonly name: string | undefined;
  readonly until: string | undefined;
  readonly messages: readonly StoredMessage[];
}
const ids = ["a", "b", "c", "d", "", "line"];
const id = fc.option(fc.constantFrom(...ids), { nil: undefined });
const role = fc.constantFrom("user", "assistant", "tool");
const toMessages = fc
  .tuple(fc.integer({ min: 0, max: 70 }), fc.array(fc.record({ id, role }), { minLength: 1, maxLength: 8 }))
  .map(([count, kinds]) => Array.from({ length: count }, (_, index) => ({ ...kinds[index % kinds.length]!, index })));
const store = fc.record({
  name: fc.option(fc.constantFrom("x", "y"), { nil: undefined }),
  until: fc.option(fc.constantFrom(...ids), { nil: undefined, freq: 3 }),
  messages: toMessages,
});

describe("a conversation on Restate", () => {
  const opened: { readonly close: () => Promise<void> }[] = [];
  let stores: [Conversations, Conversations];

  async function open(backend: Backend): Promise<Conversations> {
    const { engine, conversations } = backend.open({
      ...defaultLimits,
      root: import.meta.dirname,
      logger: createTestLogger([]),
    });
    await engine.open();
    await engine.recover();
    opened.push({ close: () => engine.close({ drainMs: 0 }) });
    return conversations;
  }
  beforeAll(async () => {
    const name = `store-${randomUUID()}`;
    stores = [
      await open(embedded({ path: ":memory:" })),
      await open(restate({ ingress, admin, name, serve: { port: 0 } })),
    ];
  });
  afterAll(() => Promise.all(opened.map((one) => one.close())));

  /** The histories before and after a store, as the turn sees them. */
  async function play(conversations: Conversations, conversationId: string, { name, until, messages }: Store) {
    const { signal } = new AbortController();
    const turn = await conversations.open({ agentId: "a", conversationId }, { name, signal });
    const seen: History[] = [];
    for (const each of [undefined, ...ids]) seen.push(await turn.history(each));
    await turn.store(messages, until);
    seen.push(await turn.history());
    turn.close();
    return seen;
  }

  it("has the same messages as on embedded, whatever is stored", { timeout: 10 * patienceMs }, async () => {
    let turns = 0;
    await fc.assert(
      fc.asyncProperty(fc.array(store, { minLength: 1, maxLength: 12, size: "max" }), async (commands) => {
        const conversationId = randomUUID();
        for (const { messages, ...place } of commands) {
          turns++;
          const bodies = messages.map(({ index, ...message }) => ({
            ...message,
            body: JSON.stringify([turns, index]),
          }));
          const command = { ...place, messages: bodies };
          const [expected, found] = await Promise.all(stores.map((one) => play(one, conversationId, command)));
          expect(found).toEqual(expected);
        }
      }),
      { numRuns: 20 },
    );
    expect(turns).toBeGreaterThan(40);
  });

  it("shows as much of long messages as on embedded", { timeout: patienceMs }, async () => {
    const conversationId = randomUUID();
    const message = { role: "user", body: JSON.stringify("é".repeat(1_000_000)) };
    const command = { name: undefined, until: undefined, messages: [message, message, message] };
    for (let times = 0; times < 2; times++) {
      const [expected, found] = await Promise.all(stores.map((one) => play(one, conversationId, command)));
      expect(found!.map(({ messages }) => messages.length)).toEqual(expected!.map(({ messages }) => messages.length));
      expect(found!.at(-1)!.messages.length).toBe(times === 0 ? 3 : 4);
    }
  });

  it("refuses a turn that Restate cannot take", { timeout: patienceMs }, async () => {
    const conversationId = randomUUID();
    const message = { role: "user", body: JSON.stringify("x".repeat(31_000_000)) };
    const command = { name: undefined, until: undefined, messages: [message] };
    await expect(play(stores[1], conversationId, command)).rejects.toMatchObject({ status: 413 });
  });
});
