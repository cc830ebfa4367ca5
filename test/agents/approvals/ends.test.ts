// Each of these changes makes a test of this file fail: a turn that fails without its results; a stop that leaves an approved call
// without a result; a decided call that can be decided again after such an end.
import { defineTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { eventually } from "../../harness/waiting.ts";
import { createPlannedModel, read, stop, toAgent, unique } from "../turns/turn-server.ts";
import { decide } from "./bank.ts";

const planned = createPlannedModel();
const runs: string[] = [];
const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ to: v.string() }),
  needsApproval: true,
  async execute({ to }) {
    runs.push(to);
    if (to.startsWith("slow")) await planned.gates.pass(to);
    return "paid";
  },
});
const agent = toAgent(planned.model, "a", { tools: { pay } });
const partsOf = (message: any): any[] => message.parts.filter(({ type }: any) => type === "tool-pay");

describeServer("the turn that continues an answer", { config: { agents: [agent] }, only: ["in process"] }, (server) => {
  const ask = (conversationId: string, input: string) =>
    server.post("/agents/a/text", { input, options: { conversationId } });
  const call = (...to: string[]) => ({
    toolCalls: to.map((one, index) => ({ toolName: "pay", input: { to: one }, toolCallId: `call-${index}` })),
  });
  const fail = () => {
    throw new Error("The model is down");
  };

  it("keeps the results of approved tools if their turn fails: they do not run again, and the model is shown them", async () => {
    const [question, to, conversationId] = [unique("question"), unique("to"), unique("c")];
    planned.plan(question, call(to, `${to}-denied`), fail);
    const { body } = await ask(conversationId, question);
    const [one, two] = body.data.approvals.map(({ approvalId }: any) => approvalId);
    await decide(server, two, { approved: false, reason: "No" });
    expect((await decide(server, one)).status).toBe(502);
    expect(runs.filter((run) => run.startsWith(to))).toEqual([to]);
    const [, answer] = await read(server, "a", conversationId);
    expect(partsOf(answer)).toMatchObject([
      { state: "output-available", output: "paid", approval: { approved: true } },
      { state: "output-denied", approval: { approved: false, reason: "No" } },
    ]);
    expect((await decide(server, one)).body.data).toMatchObject({ approved: true, status: "idle" });
    const next = unique("next");
    planned.plan(next, "Hello.");
    expect((await ask(conversationId, next)).body.data.text).toBe("Hello.");
    expect(planned.prompts(next)[0]).toContain('tool: [pay → execution-denied] [pay → "paid"]');
    expect(runs.filter((run) => run.startsWith(to))).toEqual([to]);
  });

  it("ends an approved tool with the error Stopped if its turn is stopped", async () => {
    const [question, to, conversationId] = [unique("question"), unique("slow"), unique("c")];
    planned.plan(question, call(to), "Never said.");
    const { body } = await ask(conversationId, question);
    const { approvalId } = body.data.approvals[0];
    const deciding = decide(server, approvalId);
    await planned.gates.reached(to);
    const state = { approvalId, approved: true, status: "running" };
    expect(await decide(server, approvalId)).toMatchObject({ status: 200, body: { data: state } });
    await eventually(async () =>
      expect(await stop(server, "a", conversationId)).toMatchObject({ body: { data: { stopped: true } } }),
    );
    expect(await deciding).toMatchObject({ status: 409, body: { error: "The turn was stopped" } });
    planned.gates.open(to);
    const [, answer] = await read(server, "a", conversationId);
    expect(partsOf(answer)).toMatchObject([
      { state: "output-error", errorText: "Stopped", approval: { id: approvalId, approved: true } },
    ]);
    expect(answer!.metadata).toMatchObject({ stopped: true });
    expect((await decide(server, approvalId)).body.data).toEqual({
      ...state,
      status: "idle",
      conversationId,
      messageId: answer!.id,
    });
    const next = unique("next");
    planned.plan(next, "Hello.");
    await ask(conversationId, next);
    expect(planned.prompts(next)[0]).toContain('tool: [pay → "Stopped"]');
    expect(runs.filter((run) => run === to)).toHaveLength(1);
  });
});
