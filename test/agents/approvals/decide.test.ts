import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { read } from "../turns/turn-server.ts";
import { ask, bankConfig, decide, list, paidTo, request } from "./bank.ts";

describeServer("a tool call that waits for an approval", { config: bankConfig(), only: ["start"] }, (server) => {
  it("an approval ends the answer with the finish reason approval, and is in the list with its input", async () => {
    const { to, conversationId, response, id } = await request(server, "5", { options: { userId: "ada" } });
    const input = { amount: 5, to };
    expect(response).toMatchObject({ status: 200, body: { data: { finishReason: "approval" } } });
    expect(response.body.data.approvals).toEqual([{ approvalId: id, toolName: "pay", toolCallId: "call-0", input }]);
    expect(id).toMatch(/^[\da-f]{32}$/);
    const items = await list(server, "?userId=ada&limit=200");
    const item = items.find(({ approvalId }) => approvalId === id);
    const requestedAt = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
    expect(item).toEqual({
      approvalId: id,
      agentId: "bank",
      conversationId,
      userId: "ada",
      toolName: "pay",
      input,
      requestedAt,
      mayReadConversation: true,
    });
    expect(paidTo(to)).toEqual([]);
  });

  it("an approval runs the tool with that input when it is approved, for the user of the conversation", async () => {
    const { to, id, conversationId } = await request(server, "5", { options: { userId: "ada" } });
    const { status, body } = await decide(server, id, { approved: true }, {}, "?userId=ada");
    expect(status).toBe(200);
    expect(body.data).toMatchObject({ text: "Done: paid 5", finishReason: "stop" });
    expect(body.data.approvals).toBeUndefined();
    expect(paidTo(to)).toEqual([
      { input: { amount: 5, to }, userId: "ada", approvedBy: { id: "ada" }, key: expect.stringMatching(/\/call-0$/) },
    ]);
    const messages = await read(server, "bank", conversationId, "ada");
    const parts = messages[1]!.parts.filter(({ type }) => type === "tool-pay");
    expect(parts).toMatchObject([{ state: "output-available", output: "paid 5", approval: { id, approved: true } }]);
    expect((await list(server, "?userId=ada&limit=200")).map(({ approvalId }) => approvalId)).not.toContain(id);
  });

  it("an approval does not run the tool when it is denied, and the model is told the reason", async () => {
    const { to, id, conversationId } = await request(server);
    const { status, body } = await decide(server, id, { approved: false, reason: "Too much" });
    expect([status, body.data.text]).toEqual([200, "Done: execution-denied"]);
    const [, answer] = await read(server, "bank", conversationId);
    const part = answer!.parts.find(({ type }) => type === "tool-pay");
    expect(part).toMatchObject({ state: "output-denied", approval: { id, approved: false, reason: "Too much" } });
    expect(paidTo(to)).toEqual([]);
  });

  it("an approval is decided once: the same decision again is a 200 with its state, the opposite one a 409", async () => {
    const { to, id, conversationId } = await request(server);
    const approve = (reason = "Fine") => decide(server, id, { approved: true, reason });
    const answers = await Promise.all([approve(), approve(), approve()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    const messageId = (await read(server, "bank", conversationId))[1]!.id;
    const state = { approvalId: id, conversationId, messageId, approved: true, reason: "Fine", status: "idle" };
    const status = expect.stringMatching(/^(running|idle)$/);
    const others = answers.flatMap(({ body }) => ("text" in body.data ? [] : [body.data]));
    expect(others).toEqual([
      { ...state, status },
      { ...state, status },
    ]);
    expect(await approve("Another")).toMatchObject({ status: 200, body: { success: true, data: state } });
    const init = { headers: { prefer: "respond-async" } };
    expect((await decide(server, id, { approved: true }, init)).body.data).toEqual(state);
    const late = await decide(server, id, { approved: false });
    expect(late).toMatchObject({ status: 409, body: { success: false, error: "Already decided: approved" } });
    expect(paidTo(to)).toHaveLength(1);
    const other = await request(server);
    await decide(server, other.id, { approved: false });
    expect((await decide(server, other.id)).body.error).toBe("Already decided: denied");
    const again = await decide(server, other.id, { approved: false, reason: "Too late" });
    expect(again).toMatchObject({ status: 200, body: { data: { approved: false, status: "idle" } } });
    expect(again.body.data).not.toHaveProperty("reason");
    expect(paidTo(other.to)).toEqual([]);
  });

  it("an approval is one of two: the answer is continued when both are decided", async () => {
    const { to, approvals, conversationId } = await request(server, "5 7");
    expect(approvals.map(({ input }) => input.amount)).toEqual([5, 7]);
    const [one, two] = approvals.map(({ approvalId }) => approvalId);
    const first = await decide(server, one, { approved: true });
    expect(first).toMatchObject({ status: 200, body: { data: { finishReason: "approval", text: "", steps: 0 } } });
    expect(first.body.data.approvals).toEqual([approvals[1]]);
    expect(paidTo(to)).toEqual([]);
    const [, waiting] = await read(server, "bank", conversationId);
    expect(waiting!.parts.flatMap((part) => ("state" in part ? part.state : []))).toEqual([
      "approval-responded",
      "approval-requested",
    ]);
    const opposite = await decide(server, one, { approved: false });
    expect(opposite).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
    const again = await decide(server, one, { approved: true });
    expect(again).toMatchObject({ status: 200, body: { data: { approvalId: one, approved: true, status: "idle" } } });
    const last = await decide(server, two, { approved: false });
    expect(last).toMatchObject({ status: 200, body: { data: { text: "Done: execution-denied, paid 5" } } });
    expect(paidTo(to).map(({ input }) => input.amount)).toEqual([5]);
  });

  it("an approval is one of two: respond-async says 202 for the last decision only", async () => {
    const { approvals, conversationId } = await request(server, "5 7");
    const init = { headers: { prefer: "respond-async" } };
    const [first, last] = [
      await decide(server, approvals[0].approvalId, { approved: true }, init),
      await decide(server, approvals[1].approvalId, { approved: true }, init),
    ];
    expect(first).toMatchObject({ status: 200, body: { data: { finishReason: "approval" } } });
    const [, answer] = await read(server, "bank", conversationId);
    expect(last).toMatchObject({ status: 202, body: { data: { conversationId, status: "running" } } });
    expect(last.body.data.messageId).toBe(answer!.id);
  });

  it("an approval of an unknown id, or of another user, is not found: 404", async () => {
    const { to, id } = await request(server, "5", { options: { userId: "ada" } });
    for (const [unknown, query] of [
      ["0123456789abcdef0123456789abcdef", ""],
      [id, ""],
      [id, "?userId=bob"],
    ]) {
      const { status, body } = await decide(server, unknown!, { approved: true }, {}, query);
      expect([status, body.error]).toEqual([404, `Approval ${unknown} not found`]);
    }
    expect((await list(server, "?userId=bob")).map(({ approvalId }) => approvalId)).not.toContain(id);
    expect(paidTo(to)).toEqual([]);
  });

  it.each([
    [{}, "approved"],
    [{ approved: "yes" }, "approved"],
    [{ approved: true, reason: "x".repeat(1_001) }, "reason"],
  ])("refuses a wrong body of a decision with 400: %j", async (body, where) => {
    const { id } = await request(server);
    const { status, body: answer } = await decide(server, id, body);
    expect([status, answer.error]).toEqual([400, expect.stringContaining(where)]);
    expect((await decide(server, id, { approved: true, reason: "x".repeat(1_000) })).status).toBe(200);
  });

  it("an approval is listed oldest first, in pages", async () => {
    const userId = `pages-${server.target}-${Date.now()}`;
    const ids: string[] = [];
    for (const amount of ["2", "3", "4"]) ids.push((await request(server, amount, { options: { userId } })).id);
    const first = (await server.get(`/approvals?userId=${userId}&limit=2`)).body.data;
    expect(first.items.map((item: any) => item.approvalId)).toEqual(ids.slice(0, 2));
    const second = (await server.get(`/approvals?userId=${userId}&limit=2&cursor=${first.nextCursor}`)).body.data;
    expect(second.items.map((item: any) => item.approvalId)).toEqual(ids.slice(2));
    expect(second.nextCursor).toBeNull();
    expect((await server.get("/approvals?limit=201")).status).toBe(400);
    expect((await server.get("/approvals?cursor=%21")).status).toBe(400);
  });

  it("an approval is not asked for where needsApproval says no", async () => {
    const { to, response } = await request(server, "1");
    expect(response.body.data).toMatchObject({ text: "Done: paid 1", finishReason: "stop" });
    expect(paidTo(to)).toMatchObject([{ approvedBy: undefined }]);
  });

  it("an approval of a tool() of the AI SDK is the same, with an id of ours", async () => {
    const { to, id } = await request(server, "5", { toolName: "transfer", options: { userId: "ada" } });
    expect(id).toMatch(/^[\da-f]{32}$/);
    const { body } = await decide(server, id, { approved: true }, {}, "?userId=ada");
    expect(body.data.text).toBe("Done: transferred");
    expect(paidTo(to)).toEqual([
      { input: { amount: 5, to }, userId: "ada", approvedBy: { id: "ada" }, key: expect.stringMatching(/\/call-0$/) },
    ]);
  });

  it("an approval has an id of its own in each turn, also if the model uses the id of the call again", async () => {
    const { conversationId, id } = await request(server);
    await decide(server, id);
    const { body } = await ask(server, conversationId, "pay 9 to nobody");
    const [next] = body.data.approvals;
    expect(next.toolCallId).toBe("call-0");
    expect(next.approvalId).not.toBe(id);
    expect((await decide(server, id, { approved: false })).status).toBe(409);
    expect((await decide(server, next.approvalId, { approved: false })).status).toBe(200);
  });
});
