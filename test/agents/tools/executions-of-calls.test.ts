// Each of these changes makes a test of this file fail: an answer that forgets its executions when it continues; a tool record
// without its execution; an ended call that is taken for one that waits, because a later call has the same id.
import { join } from "node:path";
import { defineAgent, defineTool, defineWorkflow, workflowTool } from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { openPlace } from "../../harness/places.ts";
import { describeServer, startTestServer, type TestServer } from "../../harness/server.ts";
import { until, within } from "../../harness/waiting.ts";
import { decide } from "../approvals/bank.ts";
import { openReader, stop, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls, type DirectedCall } from "./directed-model.ts";

const quick = defineWorkflow({ id: "quick" }).andThen({ id: "x", execute: () => "quickly" });
const broken = defineWorkflow({ id: "broken" }).andThen({
  id: "x",
  execute() {
    throw new Error("broken on purpose");
  },
});
const review = defineWorkflow({ id: "review", input: v.object({ name: v.string() }) }).andThen({
  id: "ask",
  execute: ({ data, resumeData, suspend }) => (resumeData ? `reviewed ${data.name}` : suspend("Review?")),
});
const workflows = [quick, broken, review];
const confirm = defineTool({
  description: "Confirms",
  inputSchema: v.object({}),
  needsApproval: true,
  execute: () => "confirmed",
});
/** A model that calls the two tools of its question one after the other, by the same id of the call. */
const again: ScriptedStep = ({ prompt }) => {
  const [{ text }] = prompt.find(({ role }) => role === "user")!.content as any[];
  const results = (prompt.flatMap(({ role, content }) => (role === "tool" ? content : [])) as any[]).filter(
    ({ type }) => type === "tool-result",
  );
  if (results.length === 2) return results.map(({ output }) => output.value).join(", ");
  const toolName = text.split(" ")[results.length];
  return { toolCalls: [{ toolName, input: { name: `no. ${results.length}` }, toolCallId: "call_0" }] };
};
const tools = { quick: workflowTool(quick), broken: workflowTool(broken), review: workflowTool(review), confirm };
const createAgent = (id: string, model: ScriptedModel) =>
  defineAgent({ id, instructions: "x", model, tools, maxRetries: 0 });
/** A model that calls a tool, and is then silent. */
const silent: ScriptedStep = ({ prompt }) =>
  prompt.at(-1)!.role === "tool"
    ? new Promise<never>(() => {})
    : { toolCalls: [{ toolName: "quick", input: {}, toolCallId: "call" }] };
const agents = [
  createAgent("silent", scriptedModel(Array.from({ length: 1_000 }, () => silent))),
  createAgent("a", directedModel()),
  createAgent("again", scriptedModel(Array.from({ length: 1_000 }, () => again))),
];

/** The answer, as its client reads it. */
async function readAnswer(server: TestServer, id: string, agent = "a"): Promise<any> {
  const { body } = await server.get(`/agents/${agent}/conversations/${id}`);
  return body.data.messages[1];
}
/** The answer, once it has a text. */
async function untilText(server: TestServer, id: string, agent = "a"): Promise<any> {
  let answer: any;
  await until(
    async () => {
      answer = await readAnswer(server, id, agent);
      return answer?.parts.some(({ type }: any) => type === "text");
    },
    () => `the text of ${JSON.stringify(answer)}`,
  );
  return answer;
}
const resume = (server: TestServer, executionId: string) =>
  within(server.post(`/workflows/review/executions/${executionId}/resume`, { resumeData: { ok: true } }));
async function ask(server: TestServer, ...calls: DirectedCall[]) {
  const id = unique("calls");
  const body = { input: toCalls(...calls), options: { conversationId: id } };
  const { data } = (await server.post("/agents/a/text", body)).body;
  const answer = await readAnswer(server, id);
  const tool = (name: string) => answer.parts.find(({ type }: any) => type === `tool-${name}`).toolCallId;
  const [{ executionId = undefined } = {}] = data.suspensions ?? [];
  return { id, data, answer, tool, executionId: executionId as string };
}
const execution = expect.stringMatching(/^child:/);

describeServer(
  "metadata.executions of an answer",
  { config: { agents, workflows }, only: ["in process"] },
  (server) => {
    it("metadata.executions names the execution of each call, also of those that have failed or still wait", async () => {
      const { answer, tool, executionId } = await ask(
        server,
        ["quick", {}],
        ["broken", {}],
        ["review", { name: "it" }],
      );
      const { executions } = answer.metadata;
      expect(executions).toHaveLength(3);
      expect(executions).toContainEqual({ toolCallId: tool("quick"), executionId: execution, ended: true });
      expect(executions).toContainEqual({ toolCallId: tool("broken"), executionId: execution, ended: true });
      expect(executions).toContainEqual({ toolCallId: tool("review"), executionId });
      for (const [name, status] of [
        ["quick", "completed"],
        ["broken", "error"],
      ] as const) {
        const call = executions.find(({ toolCallId }: any) => toolCallId === tool(name));
        const { body } = await server.get(`/workflows/${name}/executions/${call.executionId}/state`);
        expect(body.data.status).toBe(status);
      }
    });

    it.each(["a resume", "a result in the chat"])("keeps metadata.executions of an answer after %s", async (how) => {
      const { id, answer, tool, executionId } = await ask(server, ["quick", {}], ["review", { name: "it" }]);
      if (how === "a resume") await resume(server, executionId);
      else {
        const parts = answer.parts.map((part: any) =>
          part.type === "tool-review" ? { ...part, state: "output-available", output: { ok: true } } : part,
        );
        const options = { conversationId: id };
        const reader = await openReader(server, "/agents/a/chat", { messages: [{ ...answer, parts }], options });
        await reader.rest();
      }
      const { metadata } = await untilText(server, id);
      expect(metadata.executions).toHaveLength(2);
      expect(metadata.executions).toContainEqual({ toolCallId: tool("quick"), executionId: execution, ended: true });
      expect(metadata.executions).toContainEqual({ toolCallId: tool("review"), executionId, ended: true });
    });

    it("metadata.executions stays when the answer continues after an approval", async () => {
      const { id, data, tool, executionId } = await ask(server, ["confirm", {}], ["review", { name: "it" }]);
      await decide(server, data.approvals[0].approvalId);
      await resume(server, executionId);
      const { metadata } = await untilText(server, id);
      expect(metadata.executions).toEqual([{ toolCallId: tool("review"), executionId, ended: true }]);
    });

    it("metadata.executions is that of the last call, if the model uses an id again", async () => {
      const id = unique("again");
      const first = await server.post("/agents/again/text", {
        input: "review review",
        options: { conversationId: id },
      });
      const [{ executionId: before }] = first.body.data.suspensions;
      await resume(server, before);
      let executions: any[] = [];
      await until(
        async () => {
          // While a turn runs, its message is not listed.
          executions = (await readAnswer(server, id, "again"))?.metadata.executions ?? [];
          return executions[0] && executions[0].executionId !== before;
        },
        () => `the second execution: ${JSON.stringify(executions)}`,
      );
      expect(executions).toEqual([{ toolCallId: "call_0", executionId: execution }]);
      const { executionId } = executions[0];
      await resume(server, executionId);
      const answer = await untilText(server, id, "again");
      expect(answer.parts.at(-1).text).toBe("reviewed no. 0, reviewed no. 1");
      expect(answer.metadata.executions).toEqual([{ toolCallId: "call_0", executionId, ended: true }]);
    });

    it("metadata.executions does not make a call with a used id wait for the execution that has ended", async () => {
      const options = { conversationId: unique("again") };
      const { data } = (await server.post("/agents/again/text", { input: "quick confirm", options })).body;
      expect(data).toMatchObject({ finishReason: "approval", approvals: [{ toolName: "confirm" }] });
      expect(data).not.toHaveProperty("suspensions");
      const decided = await decide(server, data.approvals[0].approvalId);
      expect(decided.body.data.text).toBe("quickly, confirmed");
    });

    it("metadata.executions is that of an answer that was stopped as well", async () => {
      const id = unique("silent");
      const messages = [{ id: "m", role: "user", parts: [{ type: "text", text: "go" }] }];
      const reader = await openReader(server, "/agents/silent/chat", { messages, options: { conversationId: id } });
      await reader.readUntil(({ type }) => type === "tool-output-available");
      expect((await stop(server, "silent", id)).body.data.stopped).toBe(true);
      await reader.rest();
      const { metadata } = await readAnswer(server, id, "silent");
      expect(metadata).toMatchObject({ stopped: true, executions: [{ toolCallId: "call", ended: true }] });
    });

    it("metadata.executions is absent without such a call", async () => {
      const { data, id } = await ask(server, ["confirm", {}]);
      await decide(server, data.approvals[0].approvalId);
      expect((await untilText(server, id)).metadata).not.toHaveProperty("executions");
    });
  },
);

// On Restate with several replicas a place has one server.
it.skipIf(process.env.TEST_RESTATE_REPLICAS)(
  "keeps metadata.executions over restarts, also of a repeated turn",
  async () => {
    const folder = createFolder("executions");
    async function live(...script: ScriptedStep[]) {
      const model = scriptedModel(script);
      const config = {
        agents: [createAgent("a", model)],
        workflows,
        backend: await openPlace(join(folder, "data.db")),
        server: { limits: { drainMs: 1 } },
      };
      return startTestServer("in process", { config });
    }
    const call = (toolName: string, input = {}) => ({ toolCalls: [{ toolName, input, toolCallId: toolName }] });
    const held = Promise.withResolvers<void>();
    const hold: ScriptedStep = () => {
      held.resolve();
      return new Promise<never>(() => {});
    };
    const first = await live(call("quick"), hold);
    const headers = { prefer: "respond-async" };
    await first.post("/agents/a/text", { input: "go", options: { conversationId: "c" } }, { headers });
    await within(held.promise);
    await first.close();

    const second = await live(call("review", { name: "it" }));
    await until(async () => (await readAnswer(second, "c"))?.metadata.executions?.length === 2, "the suspension");
    const [before, waiting] = (await readAnswer(second, "c")).metadata.executions;
    expect(before).toEqual({ toolCallId: "quick", executionId: execution, ended: true });
    expect(waiting).toEqual({ toolCallId: "review", executionId: execution });
    await second.close();

    const third = await live("reviewed");
    await resume(third, waiting.executionId);
    await untilText(third, "c");
    await third.close();

    const { metadata } = await readAnswer(await live(), "c");
    expect(metadata.executions).toEqual([before, { ...waiting, ended: true }]);
  },
);
