import { expect, it } from "vitest";
import { describeServer, type TestServer } from "../../harness/server.ts";
import { read } from "../turns/turn-server.ts";
import { ask, bankConfig, decide, paidTo, request } from "./bank.ts";

/** Answers approvals as `useChat` does: with the whole message, whose parts have the responses. */
async function respond(server: TestServer, conversationId: string, responses: Record<string, boolean>, more: any = {}) {
  const messages = await read(server, "bank", conversationId);
  const { output, reason, path = "/agents/bank/chat", change = (part: any) => part } = more;
  const last = messages.at(-1)!;
  const parts = last.parts.map((part: any) => {
    const approved = responses[part.approval?.id];
    if (approved !== undefined)
      return { ...part, state: "approval-responded", approval: { ...part.approval, approved, reason } };
    return output && part.type === "tool-locate" ? { ...part, state: "output-available", output } : part;
  });
  const sent = [{ ...last, parts: parts.map(change) }];
  return path.endsWith("chat")
    ? server.post(path, { id: conversationId, messages: sent })
    : server.post(path, { input: sent, options: { conversationId } });
}
const textOf = ({ events }: { events: any[] }): string => events.map(({ delta }) => delta ?? "").join("");

describeServer("approvals in messages of a client", { config: bankConfig(), only: ["in process"] }, (server) => {
  it.each(["chat", "stream", "text"])("approvals in client messages continue the answer, sent to %s", async (route) => {
    const { to, id, conversationId } = await request(server);
    const response = await respond(server, conversationId, { [id]: true }, { path: `/agents/bank/${route}` });
    expect(response.status).toBe(200);
    const text = route === "text" ? response.body.data.text : textOf(response as never);
    expect(text).toContain("Done: paid 5");
    expect(paidTo(to)).toMatchObject([{ input: { amount: 5 }, approvedBy: {} }]);
    const [, answer] = await read(server, "bank", conversationId);
    const part = { type: "tool-pay", state: "output-available", output: "paid 5" };
    expect(answer!.parts).toContainEqual(expect.objectContaining(part));
    const opposite = await decide(server, id, { approved: false });
    expect(opposite).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
  });

  it("approvals in client messages run the tool with the input of the model, and once if three come at once", async () => {
    const { to, id, conversationId } = await request(server);
    const change = (part: any) => (part.input ? { ...part, input: { amount: 5_000, to } } : part);
    const send = () => respond(server, conversationId, { [id]: true }, { change });
    const answers = await Promise.all([send(), send(), send()]);
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200]);
    for (const answer of answers) expect(textOf(answer as never)).toContain("Done: paid 5");
    expect(paidTo(to)).toMatchObject([{ input: { amount: 5 } }]);
  });

  it("refuses a client's own result of a tool that waits for an approval: 400", async () => {
    const { to, conversationId } = await request(server);
    const change = ({ approval, ...part }: any) =>
      approval ? { ...part, state: "output-available", output: "paid 5" } : part;
    expect(await respond(server, conversationId, {}, { change })).toMatchObject({
      status: 400,
      body: { error: expect.stringMatching(/^Invalid request body: /) },
    });
    expect(paidTo(to)).toEqual([]);
  });

  it("approvals in client messages begin nothing if they were decided before: chat reads the answer again", async () => {
    const { to, id, conversationId } = await request(server, "5 7");
    await decide(server, id, { approved: false });
    const refused = await respond(server, conversationId, { [id]: true });
    expect(refused).toMatchObject({ status: 409, body: { error: "Already decided: denied" } });
    const again = await respond(server, conversationId, { [id]: false });
    expect(again.status).toBe(200);
    expect(again.events.map(({ type }: any) => type)).toContain("tool-approval-response");
    for (const path of ["/agents/bank/text", "/agents/bank/stream"])
      expect((await respond(server, conversationId, { [id]: false }, { path })).status).toBe(409);
    expect(paidTo(to)).toEqual([]);
  });

  it("approvals in client messages are a 409 if they were decided and the conversation has continued", async () => {
    const { id, conversationId } = await request(server);
    const [, before] = await read(server, "bank", conversationId);
    await decide(server, id);
    await ask(server, conversationId, "Thank you.");
    const parts = before!.parts.map((part: any) =>
      part.approval ? { ...part, state: "approval-responded", approval: { id, approved: true } } : part,
    );
    const late = await server.post("/agents/bank/chat", { id: conversationId, messages: [{ ...before, parts }] });
    expect(late).toMatchObject({ status: 409, body: { error: "Already decided: approved" } });
  });

  it("approvals in client messages have a reason of at most 1,000 characters", async () => {
    const { id, conversationId } = await request(server);
    const refused = await respond(server, conversationId, { [id]: false }, { reason: "x".repeat(1_001) });
    expect(refused).toMatchObject({ status: 400, body: { error: expect.stringContaining("1000 characters") } });
    expect((await respond(server, conversationId, { [id]: false }, { reason: "x".repeat(1_000) })).status).toBe(200);
  });

  it("approvals in client messages leave the others waiting if only some are decided, and the client may send those again", async () => {
    const { to, approvals, conversationId } = await request(server, "5 7");
    const [one, two] = approvals.map(({ approvalId }) => approvalId);
    const first = await respond(server, conversationId, { [one]: true });
    expect(first.status).toBe(200);
    expect(first.events.map(({ type }: any) => type)).toEqual(["start", "finish"]);
    expect(paidTo(to)).toEqual([]);
    const last = await respond(server, conversationId, { [one]: true, [two]: true });
    expect(textOf(last as never)).toBe("Done: paid 5, paid 7");
    expect(paidTo(to)).toHaveLength(2);
  });

  it("approvals in client messages and decisions of others lead to one answer", async () => {
    const { to, approvals, conversationId } = await request(server, "5 7");
    const [one, two] = approvals.map(({ approvalId }) => approvalId);
    await decide(server, one, { approved: false, reason: "No" });
    const last = await respond(server, conversationId, { [two]: true });
    expect(textOf(last as never)).toBe("Done: execution-denied, paid 7");
    expect(paidTo(to)).toHaveLength(1);
  });

  it("approvals in client messages wait for the results of the client's own tools, and these wait for them", async () => {
    const { to, id, conversationId } = await request(server, "5", { options: {} });
    expect(id).toBeDefined();
    const mixed = await server.post("/agents/bank/text", {
      input: `pay 5 to ${to} and locate`,
      options: { conversationId },
    });
    const [approval] = mixed.body.data.approvals;
    const decided = await decide(server, approval.approvalId);
    expect(decided.body.data).toMatchObject({ text: "", finishReason: "tool-calls" });
    expect(paidTo(to)).toEqual([]);
    const last = await respond(server, conversationId, {}, { output: "here" });
    expect(textOf(last as never)).toContain("paid 5");
    expect(paidTo(to)).toHaveLength(1);
    const other = await server.post("/agents/bank/text", {
      input: `pay 7 to ${to} and locate`,
      options: { conversationId },
    });
    const located = await respond(server, conversationId, {}, { output: "there" });
    expect(located.events.map(({ type }: any) => type)).toEqual(["start", "finish"]);
    const end = await decide(server, other.body.data.approvals[0].approvalId);
    expect(end.body.data.text).toContain("paid 7");
    expect(paidTo(to)).toHaveLength(2);
  });
});
