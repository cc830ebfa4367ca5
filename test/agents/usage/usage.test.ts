// Each of these changes makes a test of this file fail: calls that are counted for the agent that has asked; a failed call that
// counts; users or conversations that are mixed; a conversation that takes its usage with it.
import { defineTool, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { unique } from "../turns/turn-server.ts";
import { meteredAgent, readItems, readUsage, sumOf, toQuestion, type Tokens } from "./metered.ts";

const nested = meteredAgent("nested");
const ask = defineTool({
  description: "Asks another agent",
  inputSchema: v.object({}),
  execute: async (_input, { runtime }) => runtime.ask(nested, toQuestion([7, 3]), { conversationId: "inner" }),
});
const a = meteredAgent("a");
const agents = [a, nested, meteredAgent("outer", { tools: { next: ask } }), meteredAgent("paged"), meteredAgent("ids")];
const steps = defineWorkflow({ id: "steps" })
  .andAgent({ id: "one", agent: a, prompt: toQuestion([1, 2], [3, 4]) })
  .andThen({ id: "two", execute: ({ runtime }) => runtime.ask(a, toQuestion([10, 20])) });
const config = { agents, workflows: [steps] };
const today = (): string => new Date().toISOString().slice(0, 10);

describeServer("the usage of an agent", { config, only: ["in process"] }, (server) => {
  const say = (agent: string, input: string, options: object = {}, way = "text") =>
    server.post(`/agents/${agent}/${way}`, { input, options });
  /** Waits until the items of a user are these. */
  const expectItems = (agent: string, query: object, items: object[]): Promise<void> =>
    eventually(async () => {
      const { status, body } = await readUsage(server, agent, { ...query });
      expect({ status, ...body.data }).toMatchObject({ status: 200, items });
      expect(body.data.items).toHaveLength(items.length);
    });

  it("the usage of an agent is the sum of its model calls, with and without a conversation", async () => {
    const userId = unique("ada");
    const calls: Tokens[] = [
      [10, 5, 2, 1],
      [20, 6],
      [3, 1],
      [1, 1],
      [2, 2, 1],
    ];
    await say("a", toQuestion(calls[0]!, calls[1]!), { userId });
    await say("a", toQuestion(calls[2]!), { userId, conversationId: "c" });
    await say("a", toQuestion(calls[3]!), { userId }, "stream");
    await server.post("/agents/a/object", {
      input: toQuestion(calls[4]!),
      schema: { type: "object" },
      options: { userId },
    });
    await expectItems("a", { userId, by: "user" }, [{ userId, ...sumOf(...calls) }]);
    await expectItems("a", { userId, by: "conversation" }, [
      { conversationId: null, userId, ...sumOf(...calls.toSpliced(2, 1)) },
      { conversationId: "c", userId, ...sumOf(calls[2]!) },
    ]);
    const items = await readItems(server, "a", { userId });
    expect(items.reduce((sum, { calls: some }) => sum + some, 0)).toBe(calls.length);
    expect(Object.keys(items[0])).toEqual(["day", ...Object.keys(sumOf())]);
  });

  it("the usage of an agent is about the last 30 days, by day, if nothing else is asked for", async () => {
    const { data } = (await readUsage(server, "a")).body;
    const first = new Date(Date.parse(`${data.until}T00:00:00Z`) - 29 * 86_400_000).toISOString().slice(0, 10);
    expect(data).toMatchObject({ by: "day", since: first, until: today(), nextCursor: null });
  });

  it("the usage of an agent counts the calls of each turn of a conversation", async () => {
    const userId = unique("ada");
    const options = { userId, conversationId: "long" };
    for (let turn = 0; turn < 3; turn++)
      await say("a", toQuestion([5, 1], [6, 2]), options, turn === 1 ? "stream" : "text");
    const message = { role: "user", id: "q", parts: [{ type: "text", text: toQuestion([1, 1]) }] };
    await server.post("/agents/a/chat", { input: [message], options });
    const calls: Tokens[] = [
      [15, 3],
      [18, 6],
      [1, 1],
    ];
    await expectItems("a", { userId, by: "conversation" }, [{ conversationId: "long", ...sumOf(...calls), calls: 7 }]);
  });

  it("the usage of an agent counts calls of steps, and nested calls for the agent that is asked", async () => {
    const userId = unique("ada");
    await server.post("/workflows/steps/execute", { input: {}, options: { userId, conversationId: "s" } });
    await expectItems("a", { userId, by: "conversation" }, [
      { conversationId: null, ...sumOf([10, 20]) },
      { conversationId: "s", ...sumOf([1, 2], [3, 4]) },
    ]);
    await say("outer", toQuestion([100, 1], [200, 2]), { userId, conversationId: "outer" });
    await expectItems("outer", { userId, by: "conversation" }, [
      { conversationId: "outer", ...sumOf([100, 1], [200, 2]) },
    ]);
    await expectItems("nested", { userId, by: "conversation" }, [{ conversationId: "inner", ...sumOf([7, 3]) }]);
  });

  it("the usage of an agent has calls without a user, and none that have failed", async () => {
    const count = async (): Promise<number> => {
      const items = await readItems(server, "a", { by: "user" });
      return items.find(({ userId }) => userId === null)?.calls ?? 0;
    };
    const before = await count();
    expect(await say("a", "fails")).toMatchObject({ status: 502 });
    expect(await say("a", `${toQuestion([1, 1])} fails`, { conversationId: unique("f") })).toMatchObject({
      status: 502,
    });
    await say("a", toQuestion([1, 1]));
    await eventually(async () => expect(await count()).toBe(before + 2));
  });

  it("refuses a cursor of usage by user for usage by conversation", async () => {
    for (const userId of ["ada", "bob"]) await say("paged", toQuestion([1, 1]), { userId });
    const cursor = await eventually(async () => {
      const { nextCursor } = (await readUsage(server, "paged", { by: "user", limit: 1 })).body.data;
      expect(nextCursor).not.toBeNull();
      return nextCursor as string;
    });
    expect(await readUsage(server, "paged", { by: "user", limit: 1, cursor })).toMatchObject({ status: 200 });
    expect(await readUsage(server, "paged", { by: "conversation", cursor })).toMatchObject({ status: 400 });
  });

  it("the usage of an agent has users and conversations of any characters, in the order of their texts", async () => {
    const ids = ["it's", 'say "hi"', "x|y%2f", "😀", "back\\slash", " ", "null", "="];
    for (const id of ids) await say("ids", toQuestion([1, 2]), { userId: id, conversationId: id });
    const sorted = ids.toSorted();
    await eventually(async () =>
      expect((await readItems(server, "ids", { by: "user", limit: 3 })).map(({ userId }) => userId)).toEqual(sorted),
    );
    const items = await readItems(server, "ids", { by: "conversation", limit: 3 });
    expect(items.map(({ userId }) => userId)).toEqual(sorted);
    expect(items.map(({ conversationId }) => conversationId)).toEqual(sorted);
    for (const userId of ids) expect(await readItems(server, "ids", { by: "user", userId })).toHaveLength(1);
  });

  it("keeps the usage of a deleted conversation without its id", async () => {
    const userId = unique("ada");
    await say("a", toQuestion([1, 1]), { userId });
    await say("a", toQuestion([10, 1], [20, 2]), { userId, conversationId: "kept" });
    await say("a", toQuestion([100, 1], [200, 2]), { userId, conversationId: "gone" });
    await eventually(async () =>
      expect((await readItems(server, "a", { by: "conversation", userId })).map(({ calls }) => calls)).toEqual([
        1, 2, 2,
      ]),
    );
    const path = `/agents/a/conversations/gone?userId=${userId}`;
    expect(await server.request(path, { method: "DELETE" })).toMatchObject({ status: 200 });
    const kept = { conversationId: "kept", ...sumOf([10, 1], [20, 2]) };
    const none = sumOf([1, 1], [100, 1], [200, 2]);
    await expectItems("a", { userId, by: "conversation" }, [{ conversationId: null, ...none }, kept]);
    await expectItems("a", { userId, by: "user" }, [{ userId, calls: 5, inputTokens: 331 }]);
    // A new conversation may have the same id.
    await say("a", toQuestion([1, 0]), { userId, conversationId: "gone" });
    const again = { conversationId: "gone", ...sumOf([1, 0]) };
    await expectItems("a", { userId, by: "conversation" }, [{ conversationId: null, ...none }, again, kept]);
  });

  it.each([
    ["by=week", "by: expected day, user or conversation"],
    ["since=yesterday", "since: expected a day such as 2026-01-31"],
    ["since=2026-02-30", "since: expected a day such as 2026-01-31"],
    ["until=2026-1-1", "until: expected a day such as 2026-01-31"],
    ["until=1969-12-31", "until: expected a day such as 2026-01-31"],
    ["since=2026-02-02&until=2026-02-01", "until: expected a day that is not before since"],
    ["limit=0", "limit: expected 1 to 1000"],
    ["limit=1001", "limit: expected 1 to 1000"],
    ["cursor=x", "cursor: expected the nextCursor of a previous response"],
    [
      `by=user&cursor=${Buffer.from("user x'y").toString("base64url")}`,
      "cursor: expected the nextCursor of a previous response",
    ],
    ["userId=", "userId: expected an id"],
  ])("refuses a usage request with ?%s", async (query, problem) => {
    expect(await server.get(`/agents/a/usage?${query}`)).toMatchObject({
      status: 400,
      body: { success: false, error: `Invalid query: ${problem}` },
    });
  });

  it("the usage of an agent is not found for an agent that is not there", async () => {
    expect(await readUsage(server, "nobody")).toMatchObject({ status: 404, body: { error: "Agent nobody not found" } });
  });
});
