// Each of these changes makes a test of this file fail: an inner agent that is asked again for what it has answered; a tool that
// runs before all calls of its answer are decided; a denial that the inner model is not told; a step without a model call.
import { expect, it } from "vitest";
import { decide, list } from "../approvals/bank.ts";
import { describeServer } from "../../harness/server.ts";
import { read, unique } from "../turns/turn-server.ts";
import { asks, ask, deskConfig, models, paidTo, partsOf, request, respond } from "./desk.ts";
import { toCalls } from "./directed-model.ts";

const types = (events: any[]): string[] => events.map(({ type }) => type);
const textOf = (events: any[]): string => events.map(({ delta }) => delta ?? "").join("");
const toMessage = (text: string) => ({ id: unique("m"), role: "user", parts: [{ type: "text", text }] });
const paymentsTo = (to: string): string[] =>
  paidTo(to)
    .map(({ agent, amount }) => `${agent} ${amount}`)
    .toSorted();
/** The prompts of a model that name a receiver. */
const promptsOf = (model: keyof typeof models, to: string): string[] =>
  models[model].calls.map(({ prompt }) => JSON.stringify(prompt)).filter((prompt) => prompt.includes(to));

describeServer("an approval of an agent that a tool asks", { config: deskConfig, only: ["in process"] }, (server) => {
  it("an inner approval is one of the outer turn, which waits and continues with the stored input", async () => {
    const to = unique("to");
    const call = asks("clerk", ["pay", { amount: 5, to }, "p1"], ["note", {}, "n1"]);
    const { conversationId, response, approvals, id } = await request(server, [call]);
    expect(response.body.data).toMatchObject({ text: "", finishReason: "approval", toolResults: [], steps: 1 });
    const shown = { toolName: "pay", input: { amount: 5, to }, via: ["clerk"] };
    expect(approvals).toEqual([{ approvalId: expect.stringMatching(/^[\da-f]{32}$/), toolCallId: call[2], ...shown }]);
    expect((await list(server, "?limit=200")).find(({ approvalId }) => approvalId === id)).toEqual({
      approvalId: id,
      agentId: "desk",
      conversationId,
      userId: null,
      requestedAt: expect.any(String),
      mayReadConversation: true,
      ...shown,
    });
    const [part] = await partsOf(server, conversationId);
    expect(part).toMatchObject({ type: "tool-clerk", toolCallId: call[2], state: "approval-requested" });
    expect(part.approval).toEqual({ id });
    const { body: stored } = await server.get(`/agents/desk/conversations/${conversationId}`);
    expect(JSON.stringify(stored)).not.toContain("a note of the clerk");
    expect(paidTo(to)).toEqual([]);

    const decided = await decide(server, id);
    expect(decided.body.data).toMatchObject({ finishReason: "stop" });
    expect(decided.body.data.text).toContain("clerk paid 5");
    expect(decided.body.data.text).toContain("a note of the clerk");
    expect(paidTo(to)).toMatchObject([{ agent: "clerk", amount: 5, approvedBy: {} }]);
    expect(paidTo(to)[0]!.key).toMatch(/\/clerk-\d+\/p1$/);
    // Each model is asked once before and once after.
    expect([promptsOf("clerk", to).length, promptsOf("desk", to).length]).toEqual([2, 2]);
    const [ended] = await partsOf(server, conversationId);
    expect(ended).toMatchObject({ state: "output-available", approval: { id, approved: true } });
    expect(await decide(server, id)).toMatchObject({ status: 200, body: { data: { approved: true, status: "idle" } } });
    const opposite = await decide(server, id, { approved: false });
    expect(opposite).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
    expect((await ask(server, conversationId, [])).status).toBe(200);
  });

  it("an inner approval is told to the inner model if it is denied, which continues", async () => {
    const to = unique("to");
    const { conversationId, id } = await request(server, [asks("clerk", ["pay", { amount: 5, to }])]);
    const decided = await decide(server, id, { approved: false, reason: "Too much" });
    expect(decided.body.data.text).toContain("execution-denied");
    expect(paidTo(to)).toEqual([]);
    expect(promptsOf("clerk", to).at(-1)).toContain("Too much");
    const [part] = await partsOf(server, conversationId);
    expect(part).toMatchObject({ state: "output-available", output: JSON.stringify(["execution-denied"]) });
    expect(part.approval).toBeUndefined();
    expect((await decide(server, id)).body.error).toBe("Already decided: denied");
    // A page still has the denial in the part, and sends it with its next message.
    const messages: any[] = [...(await read(server, "desk", conversationId))];
    messages.at(-1).parts.find(({ toolCallId }: any) => toolCallId).approval = { id, approved: false };
    const sent = await server.post("/agents/desk/chat", {
      id: conversationId,
      messages: [...messages, toMessage("hello")],
    });
    expect(textOf(sent.events)).toBe("No tools for hello");
  });

  it.each(["chat", "stream"])(
    "an inner approval is a part of the outer call in %s, and several are asked one by one",
    async (route) => {
      const to = unique("to");
      const conversationId = unique("c");
      const call = asks("clerk", ["pay", { amount: 5, to }], ["pay", { amount: 7, to }], ["note", {}]);
      const input = toCalls(call);
      const first =
        route === "chat"
          ? await server.post("/agents/desk/chat", { id: conversationId, messages: [toMessage(input)] })
          : await server.post("/agents/desk/stream", { input, options: { conversationId } });
      const asked = first.events.find(({ type }: any) => type === "tool-approval-request");
      expect([asked.toolCallId, asked.toolCall?.toolCallId]).toContain(call[2]);
      expect(types(first.events)).not.toContain("tool-output-available");
      const [one] = await partsOf(server, conversationId);
      expect(one).toMatchObject({ state: "approval-requested", approval: { id: asked.approvalId } });

      const second = await respond(server, conversationId, { [one.approval.id]: true });
      expect(types(second.events)).toEqual(["start", "tool-approval-request", "finish"]);
      expect(second.events.at(-1)).toMatchObject({ finishReason: "tool-calls" });
      const [two] = await partsOf(server, conversationId);
      expect(two.approval.id).toBe(second.events[1].approvalId);
      expect(two.approval.id).not.toBe(one.approval.id);
      expect((await read(server, "desk", conversationId)).at(-1)!.parts.at(-1)).toMatchObject({ type: "tool-clerk" });
      expect(paidTo(to)).toEqual([]);
      expect(promptsOf("clerk", to)).toHaveLength(1);
      const items = (await list(server, "?limit=200")).filter((item) => item.conversationId === conversationId);
      expect(items).toMatchObject([{ approvalId: two.approval.id, input: { amount: 7 } }]);

      const last = await respond(server, conversationId, { [two.approval.id]: false });
      expect(textOf(last.events)).toContain("clerk paid 5");
      expect(textOf(last.events)).toContain("execution-denied");
      expect(paidTo(to)).toMatchObject([{ amount: 5 }]);
      expect([promptsOf("clerk", to).length, promptsOf("desk", to).length]).toEqual([2, 2]);
    },
  );

  it("an inner approval is independent of those of other calls, which wait for it and do not run twice", async () => {
    const to = unique("to");
    const { conversationId, approvals } = await request(server, [
      asks("clerk", ["pay", { amount: 5, to }], ["pay", { amount: 6, to }]),
      asks("clerk", ["pay", { amount: 7, to }]),
      ["pay", { amount: 8, to }],
    ]);
    const id = (amount: number) => approvals.find(({ input }) => input.amount === amount)?.approvalId;
    expect(approvals.map(({ input, via }) => [input.amount, via?.length ?? 0]).toSorted()).toEqual([
      [5, 1],
      [7, 1],
      [8, 0],
    ]);
    expect((await decide(server, id(8))).body.data.approvals).toHaveLength(2);
    expect((await decide(server, id(5))).body.data.approvals).toMatchObject([{ input: { amount: 7 }, via: ["clerk"] }]);
    expect(paidTo(to)).toEqual([]);
    const third = await decide(server, id(7));
    expect(third.body.data).toMatchObject({ finishReason: "approval", approvals: [{ input: { amount: 6 } }] });
    // The other calls of the answer have run.
    expect(paymentsTo(to)).toEqual(["clerk 7", "desk 8"]);
    const states = (await partsOf(server, conversationId)).map(({ state }) => state);
    expect(states).toEqual(["approval-requested", "output-available", "output-available"]);
    const last = await decide(server, third.body.data.approvals[0].approvalId);
    expect(last.body.data).toMatchObject({ finishReason: "stop" });
    expect(paymentsTo(to)).toEqual(["clerk 5", "clerk 6", "clerk 7", "desk 8"]);
    expect(promptsOf("desk", to)).toHaveLength(2);
  });

  it("an inner approval is asked for an agent that another agent asks", async () => {
    const to = unique("to");
    const nested = asks("clerk", ["pay", { amount: 5, to }], ["pay", { amount: 6, to }]);
    const call = asks("chief", nested, ["pay", { amount: 7, to }]);
    const { conversationId, approvals } = await request(server, [call]);
    const asked: [number, string][] = [];
    for (let [next] = approvals; next;) {
      expect(next.toolCallId).toBe(call[2]);
      asked.push([next.input.amount, next.via.join(" ")]);
      const { body } = await decide(server, next.approvalId, { approved: next.input.amount !== 6 });
      [next] = body.data.approvals ?? [];
      if (!next) expect(body.data.text).toContain("chief paid 7");
    }
    expect(asked.toSorted()).toEqual([
      [5, "chief clerk"],
      [6, "chief clerk"],
      [7, "chief"],
    ]);
    expect(paymentsTo(to)).toEqual(["chief 7", "clerk 5"]);
    expect([promptsOf("clerk", to).length, promptsOf("desk", to).length]).toEqual([2, 2]);
    const [part] = await partsOf(server, conversationId);
    expect(part.output).toContain("execution-denied");
    expect((await ask(server, conversationId, [])).status).toBe(200);
  });

  it("an inner approval is superseded by a new message: the inner tool never runs", async () => {
    const to = unique("to");
    const call = asks("clerk", ["pay", { amount: 5, to }], ["pay", { amount: 6, to }]);
    const { conversationId, id } = await request(server, [call]);
    const second = (await decide(server, id)).body.data.approvals[0].approvalId;
    expect((await ask(server, conversationId, [])).body.data).toMatchObject({ finishReason: "stop" });
    const part = (await read(server, "desk", conversationId))[1]!.parts.find(({ type }) => type === "tool-clerk");
    expect(part).toMatchObject({ state: "output-denied", approval: { id: second, reason: "superseded" } });
    expect((await decide(server, second)).body.error).toBe("Already decided: superseded");
    expect((await decide(server, id)).body.data).toMatchObject({ approved: true, status: "idle" });
    expect(paidTo(to)).toEqual([]);
    expect(promptsOf("clerk", to)).toHaveLength(1);
  });

  it("answers object with 409 and the inner approvals", async () => {
    const to = unique("to");
    const conversationId = unique("c");
    const input = toCalls(asks("clerk", ["pay", { amount: 5, to }]));
    const schema = { type: "object", properties: { a: { type: "string" } } };
    const { status, body } = await server.post("/agents/desk/object", { input, schema, options: { conversationId } });
    expect([status, body.error]).toEqual([409, "A tool waits for approval"]);
    expect(body.approvals).toMatchObject([{ toolName: "pay", via: ["clerk"] }]);
  });

  it("an inner approval is not found after the conversation was deleted", async () => {
    const to = unique("to");
    const { conversationId, id } = await request(server, [asks("clerk", ["pay", { amount: 5, to }])]);
    await server.send(`/agents/desk/conversations/${conversationId}`, { method: "DELETE" });
    expect((await decide(server, id)).status).toBe(404);
    expect(paidTo(to)).toEqual([]);
  });

  it("an inner approval is denied without a stored conversation", async () => {
    const to = unique("to");
    const input = toCalls(asks("clerk", ["pay", { amount: 5, to }]));
    const { body } = await server.post("/agents/desk/text", { input });
    expect(body.data.toolResults[0].output).toContain("denied");
    expect(promptsOf("clerk", to).at(-1)).toContain("a call without a stored conversation cannot wait");
    expect(paidTo(to)).toEqual([]);
  });
});
