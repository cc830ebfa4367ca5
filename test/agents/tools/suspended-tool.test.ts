// Each of these changes makes a test of this file fail: a turn that waits for a suspended execution in place of ending; an end that
// does not continue the answer, or continues it twice; a client's result that is taken for the result of the execution; a new
// message that leaves the call open, or that cancels the execution.
import { join } from "node:path";
import { defineWorkflow, embedded, workflowTool } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { describeServer, startTestServer, type TestServer } from "../../harness/server.ts";
import { until, within } from "../../harness/waiting.ts";
import { openReader, read, stored, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls, type DirectedCall } from "./directed-model.ts";

const pay = defineWorkflow({
  id: "pay",
  input: v.object({ amount: v.number(), again: v.optional(v.boolean()), timeout: v.optional(v.number()) }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({
    id: "approve",
    execute({ data, resumeData, timedOut, suspend }) {
      const { amount, timeout } = data;
      if (timedOut) return { ...data, by: "time" };
      if (!resumeData) return suspend(`Pay ${amount}?`, undefined, timeout === undefined ? {} : { timeout });
      return { ...data, by: resumeData.approved ? "approval" : "denial" };
    },
  })
  .andThen({
    id: "again",
    execute: ({ data, resumeData, suspend }) => (data.again && !resumeData ? suspend("Really?") : data),
  })
  .andThen({ id: "end", execute: ({ data: { amount, by } }) => ({ amount, by }) });
const quick = defineWorkflow({ id: "quick" }).andThen({ id: "x", execute: () => "quickly" });

/** The answers with which a turn fails, once each. */
const failures = new Set<string>();
const createAgent = () => {
  const hooks = {
    onEnd({ text }: { text: string }) {
      if (failures.delete(text)) throw new Error("a hook that fails");
    },
  };
  const model = directedModel();
  const tools = { pay: workflowTool(pay), quick: workflowTool(quick) };
  return { model, agent: toAgent(model, "a", { tools, hooks }) };
};
const { agent, model } = createAgent();
const inner = toAgent(directedModel(), "step", { tools: { pay: workflowTool(pay) } });
const asks = defineWorkflow({ id: "asks", input: v.object({ prompt: v.string() }) }).andAgent({
  id: "ask",
  agent: inner,
  prompt: ({ data }) => data.prompt,
});

/** Asks the agent in a new conversation to call tools, of which at least one is suspended. */
async function ask(server: TestServer, ...calls: DirectedCall[]) {
  const options = { conversationId: unique("c"), userId: "ada", context: { tone: "kind" } };
  const { status, body } = await server.post("/agents/a/text", { input: toCalls(...calls), options });
  expect([status, body.data.finishReason]).toEqual([200, "suspended"]);
  const [{ executionId }] = body.data.suspensions;
  return { options, id: options.conversationId, data: body.data, executionId: executionId as string };
}
const resume = (server: TestServer, executionId: string, approved: unknown = true) =>
  server.post(`/workflows/pay/executions/${executionId}/resume`, { resumeData: { approved } });
/** The text and the tool parts of the answer, once its text is there. */
async function answered(server: TestServer, id: string): Promise<any[]> {
  let parts: any[] = [];
  await until(
    async () => {
      const messages = await read(server, "a", id, "ada");
      parts = messages[1]?.parts.filter(({ type }) => type === "text" || type.startsWith("tool-")) ?? [];
      return parts.some(({ type }) => type === "text");
    },
    () => `the answer: ${JSON.stringify(parts)}`,
  );
  return parts;
}
const chatWith = (server: TestServer, id: string, message: object) =>
  openReader(server, "/agents/a/chat", { messages: [message], options: { conversationId: id, userId: "ada" } });
/** The message of the client, with its result of the call that waits. */
const withOutput = (message: any, output: unknown) => ({
  ...message,
  parts: message.parts.map((part: any) =>
    part.type === "tool-pay" ? { ...part, state: "output-available", output } : part,
  ),
});

describeServer(
  "a workflowTool that suspends",
  { config: { agents: [agent, inner], workflows: [pay, quick, asks] }, only: ["start"] },
  (server) => {
    it("a suspended workflowTool ends the turn, and a resume continues the same message once", async () => {
      const { id, data, executionId } = await ask(server, ["quick", {}], ["pay", { amount: 3 }]);
      expect(data.suspensions).toEqual([
        {
          executionId,
          suspension: expect.objectContaining({ reason: "Pay 3?", kind: "person", suspendedStepIndex: 0 }),
        },
      ]);
      expect(data.toolCalls).toHaveLength(2);
      expect(data.toolResults).toMatchObject([{ toolName: "quick", output: "quickly" }]);
      const [, before] = await stored(server, "a", id, 2, "ada");
      expect(before!.metadata!.executions).toContainEqual({ executionId, toolCallId: expect.any(String) });
      expect(before!.parts.map((part: any) => part.state).filter(Boolean)).toEqual([
        "output-available",
        "input-available",
      ]);
      expect((await server.get(`/agents/a/conversations/${id}?userId=ada`)).body.data.running).toBeNull();

      expect((await resume(server, executionId)).body.data.status).toBe("completed");
      const result = { amount: 3, by: "approval" };
      const [first, second, text] = await answered(server, id);
      expect([first.output, second.output]).toEqual(["quickly", result]);
      expect(JSON.parse(text.text)).toEqual(["quickly", result]);
      const [, after] = await stored(server, "a", id, 2, "ada");
      expect(after!.id).toBe(before!.id);
      expect(after!.metadata!.executions!.map(({ ended }) => ended)).toEqual([true, true]);
    });

    it("an answer with a suspended workflowTool continues with an error after a cancel", async () => {
      const { id, executionId } = await ask(server, ["pay", { amount: 4 }]);
      await server.post(`/workflows/pay/executions/${executionId}/cancel`, {});
      const [part] = await answered(server, id);
      const errorText = expect.stringMatching(/^Execution child:\S+ was cancelled$/);
      expect(part).toMatchObject({ state: "output-error", errorText });
      if (process.env["TEST_BACKEND"]?.includes("replicas")) return; // the logs are those of each replica
      const logged = server.logs.filter(({ message }) => message === "Tool failed");
      expect(logged).toMatchObject([{ level: "warn", data: { tool: "pay", error: { message: errorText } } }]);
    });

    it("an answer with a suspended workflowTool continues after a time-out, without a request", async () => {
      const id = unique("c");
      const input = toCalls(["pay", { amount: 5, timeout: 500 }]);
      const { body } = await server.post("/agents/a/text", { input, options: { conversationId: id, userId: "ada" } });
      expect(["suspended", "stop"]).toContain(body.data.finishReason); // the time may be over before the turn sees the suspension
      expect((await answered(server, id))[0].output).toEqual({ amount: 5, by: "time" });
    });

    it("an answer with a suspended workflowTool continues when both of two executions have ended", async () => {
      const { id, data } = await ask(server, ["pay", { amount: 6 }], ["pay", { amount: 7 }]);
      // In the order of the suspensions, which need not be that of the calls.
      const found = data.suspensions.toSorted((a: any, b: any) =>
        a.suspension.reason.localeCompare(b.suspension.reason),
      );
      const ids = found.map(({ executionId }: any) => executionId);
      expect(new Set(ids).size).toBe(2);
      await resume(server, ids[1]);
      await until(async () => {
        const [, message] = await read(server, "a", id, "ada");
        return message!.parts.filter((part: any) => part.state === "output-available").length === 1;
      }, "the first result");
      await resume(server, ids[0], false);
      const [first, second, text] = await answered(server, id);
      expect([first.output.by, second.output.by]).toEqual(["denial", "approval"]);
      expect(JSON.parse(text.text)).toHaveLength(2);
    });

    it("an answer with a suspended workflowTool is resumed by a tool result of the chat, which is checked as resumeData", async () => {
      const { id, executionId } = await ask(server, ["pay", { amount: 8 }]);
      const [, message] = await stored(server, "a", id, 2, "ada");
      const wrong = await chatWith(server, id, withOutput(message, { approved: "yes" }));
      expect(wrong.status).toBe(400);
      // A result of another tool, with the id of the call.
      const renamed = withOutput(message, { approved: true });
      renamed.parts = renamed.parts.map((part: any) => (part.toolCallId ? { ...part, type: "tool-quick" } : part));
      expect((await chatWith(server, id, renamed)).status).toBe(400);
      const { status } = (await server.get(`/workflows/pay/executions/${executionId}/state`)).body.data;
      expect(status).toBe("suspended");

      const reader = await chatWith(server, id, withOutput(message, { approved: true }));
      const events = await reader.rest();
      expect(reader.status).toBe(200);
      expect(events[0]).toMatchObject({ type: "start", messageId: message!.id });
      const result = { amount: 8, by: "approval" };
      expect(events).toContainEqual(expect.objectContaining({ type: "tool-output-available", output: result }));
      expect(events.map(({ delta }) => delta ?? "").join("")).toBe(JSON.stringify([result]));
      expect((await answered(server, id))[0].output).toEqual(result);
      await stored(server, "a", id, 2, "ada");
    });

    it("a workflowTool that is suspended again says so, and continues after the next result", async () => {
      const { id } = await ask(server, ["pay", { amount: 9, again: true }]);
      const [, message] = await stored(server, "a", id, 2, "ada");
      const first = await (await chatWith(server, id, withOutput(message, { approved: true }))).rest();
      expect(first.map(({ type }) => type).filter((type) => type !== undefined)).toEqual(["start", "finish"]);
      const second = await (await chatWith(server, id, withOutput(message, { approved: true }))).rest();
      expect(second.map(({ delta }) => delta ?? "").join("")).toBe(JSON.stringify([{ amount: 9, by: "approval" }]));
    });

    it("an answer with a suspended workflowTool is closed as superseded by a new message, and the execution continues by itself", async () => {
      const { id, executionId, options } = await ask(server, ["pay", { amount: 10 }]);
      const next = await server.post("/agents/a/text", { input: "hello", options });
      expect(next.body.data.text).toBe("No tools for hello");
      const shown = model.calls.at(-1)!.prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
      expect(shown).toMatchObject([{ type: "tool-result", output: { type: "error-text", value: "superseded" } }]);
      const calls = model.calls.length;
      expect((await resume(server, executionId)).body.data).toMatchObject({
        status: "completed",
        result: { amount: 10 },
      });
      const again = await server.post("/agents/a/text", { input: "bye", options });
      expect(again.body.data.text).toBe("No tools for bye");
      const messages = await stored(server, "a", id, 6, "ada");
      expect(messages[1]!.parts).toContainEqual(expect.objectContaining({ errorText: "superseded" }));
      expect(model.calls.length).toBe(calls + 1);
    });

    it("an answer with a suspended workflowTool keeps the result of the execution if the turn that continues fails", async () => {
      const { id, executionId, options } = await ask(server, ["pay", { amount: 13 }]);
      failures.add(JSON.stringify([{ amount: 13, by: "approval" }]));
      await resume(server, executionId);
      await until(() => failures.size === 0, "the turn to fail");
      const next = await server.post("/agents/a/text", { input: "hello", options });
      expect(next.body.data.text).toBe("No tools for hello");
      const shown = model.calls.at(-1)!.prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
      expect(shown).toMatchObject([{ type: "tool-result", output: { type: "json", value: { amount: 13 } } }]);
      expect(await stored(server, "a", id, 4, "ada")).toHaveLength(4);
    });

    it("an answer with a suspended workflowTool is an error of the tool where no turn can continue: without a conversation, and in a step", async () => {
      const input = toCalls(["pay", { amount: 11 }]);
      const { body } = await server.post("/agents/a/text", { input });
      expect(body.data.toolResults[0].error).toMatch(/^Execution child:\S+ is suspended: Pay 11\?$/);
      const step = await server.post("/workflows/asks/execute", { input: { prompt: input } });
      expect(step.body.data.result).toMatch(/Execution child:\S+ is suspended: Pay 11\?/);
    });
  },
);

// A file has one server.
describe.skipIf(process.env.TEST_RESTATE_REPLICAS)("over a restart", () => {
  it.each(["ends while no server runs", "ends in the next life"])(
    "an answer with a suspended workflowTool continues once if the execution %s",
    async (when) => {
      const folder = createFolder("suspended-tool");
      const live = async () => {
        const made = createAgent();
        const config = {
          agents: [made.agent],
          workflows: [pay, quick],
          backend: embedded({ path: join(folder, "data.db") }),
        };
        const server = await startTestServer("in process", { config });
        return { server, model: made.model };
      };
      const timeout = when === "ends while no server runs" ? 1 : undefined;
      const first = await live();
      const { id, executionId } = await ask(first.server, ["pay", { amount: 12, timeout: timeout && 60_000 }]);
      await first.server.close();
      const second = await live();
      expect(await read(second.server, "a", id, "ada")).toHaveLength(2);
      await resume(second.server, executionId);
      expect((await answered(second.server, id))[0].output).toEqual({ amount: 12, by: "approval" });
      expect(second.model.calls).toHaveLength(1);
      await second.server.close();
      const third = await live();
      expect(await within(third.server.get(`/agents/a/conversations/${id}?userId=ada`))).toMatchObject({ status: 200 });
      expect(third.model.calls).toHaveLength(0);
    },
  );
});
