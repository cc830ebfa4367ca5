// Each of these changes makes a test of this file fail: an answer that continues with one of two things that it waits for; a tool
// that runs before that; a call that is said to have run, although the user has continued without it.
import { defineTool, defineWorkflow, workflowTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { until } from "../../harness/waiting.ts";
import { decide } from "../approvals/bank.ts";
import { read, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls } from "./directed-model.ts";

const review = defineWorkflow({
  id: "review",
  input: v.object({ name: v.string() }),
  resumeSchema: v.object({ ok: v.boolean() }),
}).andThen({
  id: "ask",
  execute: ({ data, resumeData, suspend }) => (resumeData ? `reviewed ${data.name}` : suspend("Review?")),
});
const paid: string[] = [];
const pay = defineTool({
  description: "Pays",
  inputSchema: v.object({ to: v.string() }),
  needsApproval: true,
  execute: ({ to }) => (paid.push(to), `paid ${to}`),
});
const agent = toAgent(directedModel(), "a", { tools: { review: workflowTool(review), pay } });

const config = { agents: [agent], workflows: [review] };
describeServer("an answer with an approval and a suspended execution", { config, only: ["in process"] }, (server) => {
  async function ask() {
    const [to, conversationId] = [unique("to"), unique("c")];
    const input = toCalls(["pay", { to }], ["review", { name: to }]);
    const { body } = await server.post("/agents/a/text", { input, options: { conversationId } });
    expect(body.data).toMatchObject({
      finishReason: "approval",
      approvals: [{ toolName: "pay" }],
      suspensions: [{ suspension: { reason: "Review?" } }],
      toolResults: [],
    });
    const [{ approvalId }] = body.data.approvals;
    const [{ executionId }] = body.data.suspensions;
    const resume = () =>
      server.post(`/workflows/review/executions/${executionId}/resume`, { resumeData: { ok: true } });
    const parts = async (): Promise<any[]> =>
      (await read(server, "a", conversationId))[1]!.parts.filter(({ type }) => type !== "step-start");
    const runs = () => paid.filter((one) => one === to).length;
    const answer = JSON.stringify([`reviewed ${to}`, `paid ${to}`]);
    return { to, conversationId, approvalId, resume, parts, runs, answer };
  }
  const sorted = (text: string): string[] => (JSON.parse(text) as string[]).toSorted().toReversed();

  it("an answer with an approval and an execution continues when the execution ends after the decision", async () => {
    const { approvalId, resume, parts, runs, answer } = await ask();
    const decided = await decide(server, approvalId);
    expect(decided).toMatchObject({ status: 200, body: { data: { text: "" } } });
    expect(runs()).toBe(0);
    await resume();
    await until(async () => (await parts()).some(({ type }) => type === "text"), "the answer");
    expect(JSON.stringify(sorted((await parts()).at(-1).text))).toBe(answer);
    expect((await parts()).map(({ state }) => state)).toEqual(["output-available", "output-available", "done"]);
    expect(runs()).toBe(1);
    expect((await decide(server, approvalId)).body.data).toMatchObject({ approved: true, status: "idle" });
  });

  it("an answer with an approval and an execution continues with a decision after the end of the execution", async () => {
    const { approvalId, resume, parts, runs, answer } = await ask();
    await resume();
    await until(async () => (await parts()).some(({ output }) => output), "the result of the execution");
    expect(runs()).toBe(0);
    const { body } = await decide(server, approvalId);
    expect(JSON.stringify(sorted(body.data.text))).toBe(answer);
    expect(runs()).toBe(1);
    expect((await parts()).map(({ state }) => state)).toEqual(["output-available", "output-available", "done"]);
  });

  it("tells the model both a denial and the result of an execution", async () => {
    const { to, approvalId, resume, parts, runs } = await ask();
    await decide(server, approvalId, { approved: false, reason: "No" });
    await resume();
    await until(async () => (await parts()).some(({ type }) => type === "text"), "the answer");
    expect(sorted((await parts()).at(-1).text)).toEqual([`reviewed ${to}`, "execution-denied"]);
    expect(runs()).toBe(0);
  });

  it.each([true, false])(
    "an answer with an approval and an execution is closed by a new message: its tool never runs (approved before: %s)",
    async (isDecided) => {
      const { conversationId, approvalId, resume, parts, runs } = await ask();
      if (isDecided) await decide(server, approvalId);
      const next = await server.post("/agents/a/text", { input: "hello", options: { conversationId } });
      expect(next.body.data.text).toBe("No tools for hello");
      const [first, second] = await parts();
      expect(first).toMatchObject({ state: "output-denied", approval: { reason: "superseded" } });
      expect(second).toMatchObject({ state: "output-error", errorText: "superseded" });
      expect((await resume()).body.data).toMatchObject({ status: "completed" });
      expect((await decide(server, approvalId)).status).toBe(isDecided ? 200 : 409);
      expect(runs()).toBe(0);
    },
  );
});
