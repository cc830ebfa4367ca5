// Each of these changes makes this test fail: a page that has all texts in one answer; one that is not read again.
import { expect, it } from "vitest";
import { RestateConversations } from "../../src/backends/restate/conversations/conversations.ts";
import { readPage } from "../../src/backends/restate/conversations/messages.ts";
import type { PageInput } from "../../src/backends/restate/conversations/inputs.ts";

const answerBytes = 33_554_432;
const texts = (mark: string) => Array.from({ length: 6 }, (_, n) => JSON.stringify(`${mark}${n}`.repeat(3_500_000)));

/** The state of a conversation with one message of an older release: a row for each model message, and no UI message. */
function toState(bodies: readonly string[], id: string): Map<string, unknown> {
  const rows = bodies.map(({ length }, n) => [n, n % 2 === 0 ? "assistant" : "tool", length, id, null]);
  const state = new Map<string, unknown>([
    ["size", { next: rows.length, count: rows.length }],
    ["p0", rows],
  ]);
  for (const [n, body] of bodies.entries()) state.set(`m${n}`, body);
  return state;
}

it("reads a long message of an older release in several answers, and again if a turn has changed it", async () => {
  const [first, second] = [texts("a"), texts("b")];
  let state = toState(first, "one");
  const context = { get: async (key: string) => state.get(key) ?? null };
  const sizes: number[] = [];
  const client = {
    async read(_handler: string, _key: string, { from, ...options }: PageInput) {
      // Of the SDK and of the context, `readPage` uses no more than this.
      const answer = await readPage({ sdk: { RestatePromise: Promise }, context } as never, options, from);
      sizes.push(JSON.stringify(answer).length);
      if (sizes.length === 2) state = toState(second, "two");
      return answer;
    },
  };
  // To read, no other part is used.
  const parts = { client } as never;
  const rows = await new RestateConversations(parts).read({ agentId: "a", conversationId: "c" }, { limit: 1 });
  expect(rows.map(({ id, models }, n) => [id, models === second[n]])).toEqual(second.map(() => ["two", true]));
  expect(sizes.length).toBeGreaterThan(3);
  expect(Math.max(...sizes)).toBeLessThan(answerBytes);
});
