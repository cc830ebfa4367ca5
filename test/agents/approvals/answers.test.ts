import { defineTool, defineWorkflow } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { read, unique } from "../turns/turn-server.ts";
import { ask, bankConfig, createBank, decide, paidTo, payments } from "./bank.ts";

const bank = createBank();
const pays = defineWorkflow({ id: "pays", input: v.object({ to: v.string() }) }).andAgent({
  id: "asks",
  agent: bank,
  prompt: ({ data }) => `pay 5 to ${data.to}`,
});
const asks: unknown[] = [];
const moody = defineTool({
  description: "Asks in its own way",
  inputSchema: v.object({ amount: v.number(), to: v.string() }),
  needsApproval: (input, { context, runtime, signal, toolCallId }) => {
    asks.push([context.userId, typeof runtime.start, signal.aborted, toolCallId]);
    if (input.amount === 66) throw new Error("No rule for 66");
    if (input.amount === 77) return "yes" as never;
    return input.amount > 1;
  },
  execute: (input) => {
    payments.push({ input, userId: undefined, approvedBy: undefined, key: "" });
    return "paid";
  },
});
const config = bankConfig({
  agents: [bank, createBank({ id: "moody", tools: { pay: moody } }), createBank({ id: "forgetful", memory: false })],
  workflows: [pays],
});
const denied = "This tool needs an approval, and a call without a stored conversation cannot wait for one";

describeServer("answers with a tool that needs an approval", { config, only: ["in process"] }, (server) => {
  const schema = { type: "object", properties: { paid: { type: "number" } }, required: ["paid"] };

  it("answers object with 409 and the approvals if a tool waits for one", async () => {
    const [to, conversationId] = [unique("to"), unique("c")];
    const body = { input: `pay 5 to ${to}`, schema, options: { conversationId } };
    const response = await server.post("/agents/bank/object", body);
    const approvalId = expect.stringMatching(/^[\da-f]{32}$/);
    const approvals = [{ approvalId, toolName: "pay", toolCallId: "call-0", input: { amount: 5, to } }];
    expect([response.status, response.body]).toEqual([
      409,
      { success: false, error: "A tool waits for approval", approvals },
    ]);
    const id = response.body.approvals[0].approvalId;
    expect((await decide(server, id)).body.data.text).toBe("Done: paid 5");
    const stream = await server.post("/agents/bank/stream-object", { ...body, input: `pay 6 to ${to}` });
    expect(stream.events.at(-1)).toMatchObject({ type: "error", error: "A tool waits for approval", approvals: [{}] });
    expect(paidTo(to)).toHaveLength(1);
  });

  it("sends approval requests in stream and chat as parts of the AI SDK", async () => {
    const [to, conversationId] = [unique("to"), unique("c")];
    const options = { conversationId };
    const { events } = await server.post("/agents/bank/stream", { input: `pay 5 to ${to}`, options });
    const part = events.find(({ type }: any) => type === "tool-approval-request");
    expect(part).toMatchObject({ approvalId: expect.stringMatching(/^[\da-f]{32}$/), toolCall: { toolName: "pay" } });
    expect(events.at(-1)).toMatchObject({ type: "finish", finishReason: "tool-calls" });
    expect((await decide(server, part.approvalId)).status).toBe(200);
    const chat = await server.post("/agents/bank/chat", {
      id: unique("c"),
      messages: [{ id: "m", role: "user", parts: [{ type: "text", text: `pay 5 to ${to}` }] }],
    });
    expect(chat.events.map(({ type }: any) => type)).toContain("tool-approval-request");
  });

  it("denies a tool that needs approval without a conversation, and in an agent without memory", async () => {
    for (const [agent, options] of [
      ["bank", {}],
      ["forgetful", { conversationId: unique("c") }],
    ] as const) {
      const to = unique("to");
      const { body } = await server.post(`/agents/${agent}/text`, { input: `pay 5 to ${to}`, options });
      expect(body.data).toMatchObject({ text: "Done: execution-denied", finishReason: "stop" });
      const { events } = await server.post(`/agents/${agent}/stream`, { input: `pay 5 to ${to}`, options });
      expect(events.find(({ type }: any) => type === "tool-approval-response")).toMatchObject({
        approved: false,
        reason: denied,
      });
      expect(paidTo(to)).toEqual([]);
    }
  });

  it("denies a tool that needs approval in a step, also in a conversation", async () => {
    for (const conversationId of [undefined, unique("c")]) {
      const to = unique("to");
      const { body } = await server.post("/workflows/pays/execute", { input: { to }, options: { conversationId } });
      expect(body.data).toMatchObject({ status: "completed", result: "Done: execution-denied" });
      expect(paidTo(to)).toEqual([]);
    }
  });

  it("asks needsApproval once for each call, with the context that execute has", async () => {
    const [to, conversationId] = [unique("to"), unique("c")];
    asks.length = 0;
    const options = { userId: "ada", conversationId };
    const { body } = await server.post("/agents/moody/text", { input: `pay 5 to ${to}`, options });
    await decide(server, body.data.approvals[0].approvalId, { approved: true }, {}, "?userId=ada");
    expect([asks, paidTo(to).length]).toEqual([[["ada", "function", false, "call-0"]], 1]);
  });

  it.each([
    [66, "No rule for 66"],
    [77, "needsApproval: expected true or false, found string"],
  ])("fails the call if needsApproval fails (%i), and only the log has the reason", async (amount, reason) => {
    const [to, conversationId] = [unique("to"), unique("c")];
    const options = { userId: "ada", conversationId };
    const { body } = await server.post("/agents/moody/text", { input: `pay ${amount} to ${to}`, options });
    const message = "Tool pay failed";
    expect(body.data).toMatchObject({ text: `Done: ${message}`, toolResults: [{ error: message }] });
    expect(paidTo(to)).toEqual([]);
    if (process.env["TEST_BACKEND"]?.includes("replicas")) return; // the logs are those of each replica
    const isOfCall = ({ data }: { data?: object | undefined }) => String((data as any)?.error?.message) === reason;
    expect(server.logs.filter(isOfCall)).toMatchObject([
      { level: "warn", message: "needsApproval of tool pay failed, so the call fails", data: { tool: "pay" } },
    ]);
  });

  it("fails an answer with more than 128 calls that wait for approval, and none of them waits", async () => {
    const [to, conversationId] = [unique("to"), unique("c")];
    const many = (count: number) => `pay ${Array.from({ length: count }, () => 5).join(" ")} to ${to}`;
    const failed = await ask(server, conversationId, many(129));
    const error = "The answer has 129 tool calls that wait for approval: the limit is 128";
    expect(failed).toMatchObject({ status: 500, body: { error } });
    expect(await read(server, "bank", conversationId)).toHaveLength(1);
    const most = await ask(server, conversationId, many(128));
    expect(most.body.data.approvals).toHaveLength(128);
    await ask(server, conversationId, "never mind");
    expect((await decide(server, most.body.data.approvals[127].approvalId)).status).toBe(409);
    expect(paidTo(to)).toEqual([]);
  });
});
