import { tool } from "ai";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineAgent, defineTool, ServeError, type AgentContext, type AgentHooks } from "agentserve";
import { scriptedModel, type ScriptedStep } from "agentserve/models";
import { startTestServer } from "../harness/server.ts";

const add = defineTool({
  description: "Adds",
  inputSchema: v.object({ a: v.number(), b: v.number() }),
  execute: ({ a, b }) => (a > 99 ? Promise.reject(new Error("too large")) : a + b),
});
const call = (a: number) => ({ toolCalls: [{ toolName: "add", toolCallId: `c${a}`, input: { a, b: 1 } }] });

async function play(hooks: AgentHooks, script: readonly ScriptedStep[], more: object = {}) {
  const model = scriptedModel(script);
  const agent = defineAgent({ id: "a", instructions: "x", model, tools: { add }, maxRetries: 0, hooks, ...more });
  const server = await startTestServer("in process", { config: { agents: [agent] } });
  return { server, model, agent };
}

/** Hooks that write down what they heard. */
function recorder() {
  const heard: unknown[] = [];
  const hooks: AgentHooks = {
    onStart: ({ messages }) => void heard.push(["start", messages.length]),
    onStepEnd: ({ step }) => void heard.push(["step", step.finishReason]),
    onToolStart: ({ toolName, toolCallId, input }) => void heard.push(["tool", toolName, toolCallId, input]),
    onToolEnd: ({ toolCallId, output, error }) => void heard.push(["tool-end", toolCallId, output ?? String(error)]),
    onEnd: ({ text, finishReason, usage, steps }) =>
      void heard.push(["end", text, finishReason, usage.totalTokens, steps.length]),
    onError: ({ error }) => void heard.push(["error", (error as Error).message]),
  };
  return { heard, hooks };
}

for (const endpoint of ["text", "stream", "chat"]) {
  const input = [{ role: "user", content: "one and one" }];

  describe(`hooks of ${endpoint}`, () => {
    it(`calls the hooks of ${endpoint} in order, with what has happened`, async () => {
      const { heard, hooks } = recorder();
      const { server } = await play(hooks, [
        call(1),
        call(100),
        { text: "two", usage: { inputTokens: 4, outputTokens: 1 } },
      ]);
      await server.post(`/agents/a/${endpoint}`, { input });
      expect(heard).toEqual([
        ["start", 1],
        ["tool", "add", "c1", { a: 1, b: 1 }],
        ["tool-end", "c1", 2],
        ["step", "tool-calls"],
        ["tool", "add", "c100", { a: 100, b: 1 }],
        ["tool-end", "c100", "Error: too large"],
        ["step", "tool-calls"],
        ["step", "stop"],
        ["end", "two", "stop", 7, 3],
      ]);
    });

    it(`gives the hooks of ${endpoint} the agent and the context of the call`, async () => {
      const ids = new Set<string>();
      const seen: unknown[] = [];
      const note = ({ agent, context }: { agent: { id: string }; context: AgentContext }) => {
        ids.add(context.operationId);
        seen.push([agent.id, context.userId, context.conversationId, context.context.get("k"), context.signal.aborted]);
        context.logger.info("noted");
      };
      const { server } = await play({ onStart: note, onEnd: note }, ["hi"]);
      const options = { userId: "ada", conversationId: "c7", context: { k: 1 } };
      await server.post(`/agents/a/${endpoint}`, { input, options });
      expect(seen).toEqual(Array.from({ length: 2 }, () => ["a", "ada", "c7", 1, false]));
      expect(ids.size).toBe(1);
      const noted = server.logs.find(({ message }) => message === "noted");
      expect(noted?.data).toMatchObject({ agentId: "a", operationId: [...ids][0] });
    });

    for (const name of ["onStart", "onStepEnd", "onToolStart", "onToolEnd", "onEnd"] as const) {
      it(`fails a call of ${endpoint} when ${name} throws`, async () => {
        for (const [error, status, message] of [
          [new ServeError(429, "Slow down"), 429, "Slow down"],
          [new Error("SECRET"), 500, "Failed to execute agent"],
        ] as const) {
          const { heard, hooks } = recorder();
          const failing = { [name]: () => Promise.reject(error), onError: hooks.onError! };
          const { server } = await play(failing, [call(1), "two", "three"]);
          const answer = await server.post(`/agents/a/${endpoint}`, { input, options: { conversationId: "c" } });
          const plain = [answer.status, answer.body?.error];
          // A stream that has begun can only end with it.
          const last = [answer.events.at(-1)?.error ?? answer.events.at(-1)?.errorText];
          expect(answer.events.length > 0 ? last : plain).toEqual(
            answer.events.length > 0 ? [message] : [status, message],
          );
          expect(heard).toEqual([["error", error.message]]);
          expect(answer.text).not.toContain("SECRET");
        }
      });
    }

    it(`stores no answer of ${endpoint} if onEnd throws`, async () => {
      let isFirst = true;
      const onEnd = () => {
        if (isFirst) throw new ServeError(400, "No");
      };
      const { server, model } = await play({ onEnd }, ["first", "second"]);
      const options = { conversationId: "c" };
      await server.post(`/agents/a/${endpoint}`, { input, options });
      isFirst = false;
      await server.post(`/agents/a/${endpoint}`, { input: [{ role: "user", content: "again" }], options });
      expect(model.calls[1]!.prompt.map(({ role }) => role)).toEqual(["system", "user", "user"]);
    });

    it(`does not run a tool in ${endpoint} that onToolStart refuses`, async () => {
      let ran = false;
      const execute = () => (ran = true);
      const own = defineTool({ description: "", inputSchema: v.object({}), execute });
      const ofTheSdk = tool({ description: "", inputSchema: z.object({}), execute });
      const onToolStart = () => Promise.reject(new ServeError(403, "Not this one"));
      for (const one of [own, ofTheSdk]) {
        const { server } = await play({ onToolStart }, [call(1), "two"], { tools: { add: one } });
        const { text } = await server.post(`/agents/a/${endpoint}`, { input });
        expect(text).toContain("Not this one");
        expect(ran).toBe(false);
      }
    });

    it(`answers ${endpoint} with the error of the model although onError throws`, async () => {
      const onError = () => Promise.reject(new Error("in the hook"));
      const { server } = await play({ onError }, [new Error("in the model")]);
      const { status, body } = await server.post(`/agents/a/${endpoint}`, { input });
      expect([status, body.error]).toEqual([502, "Model call failed"]);
      expect(server.logs.map(({ message }) => message)).toContain("onError failed");
    });
  });
}
