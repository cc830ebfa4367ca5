// A refused request that takes the place of one that waits for the same execution makes a test of this file fail. So does a
// resume before all results of a message are checked.
import { defineWorkflow, workflowTool } from "agentserve";
import * as v from "valibot";
import { expect, it } from "vitest";
import { describeServer } from "../../harness/server.ts";
import { within } from "../../harness/waiting.ts";
import { openReader, stored, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls } from "./directed-model.ts";

let release = (): void => {};
let begun = Promise.withResolvers<void>();
const pay = defineWorkflow({
  id: "pay",
  input: v.object({ amount: v.number() }),
  resumeSchema: v.object({ approved: v.boolean() }),
})
  .andThen({ id: "approve", execute: ({ data, resumeData, suspend }) => (resumeData ? data : suspend("Pay?")) })
  .andThen({
    id: "slow",
    async execute({ data }) {
      begun.resolve();
      await new Promise<void>((resolve) => (release = resolve));
      return data;
    },
  });
const agent = toAgent(directedModel(), "a", { tools: { pay: workflowTool(pay) } });

const config = { agents: [agent], workflows: [pay] };
describeServer("a suspended execution", { config, only: ["in process"] }, (server) => {
  it("a suspended execution answers the first tool result, although a second one was refused meanwhile", async () => {
    begun = Promise.withResolvers();
    const id = unique("c");
    const options = { conversationId: id };
    await server.post("/agents/a/text", { input: toCalls(["pay", { amount: 8 }]), options });
    const [, message] = await stored(server, "a", id, 2);
    const parts = message!.parts.map((part: any) =>
      part.type === "tool-pay" ? { ...part, state: "output-available", output: { approved: true } } : part,
    );
    const send = () => openReader(server, "/agents/a/chat", { messages: [{ ...message, parts }], options });
    const first = send();
    await begun.promise;
    expect((await send()).status).toBe(404); // it is not suspended
    release();
    const events = await within(first.then((reader) => reader.rest()));
    expect(events.map(({ delta }) => delta ?? "").join("")).toBe(JSON.stringify([{ amount: 8 }]));
  });

  it("a suspended execution is not resumed if the result of another call in the same message is wrong", async () => {
    const options = { conversationId: unique("c") };
    const calls = toCalls(["pay", { amount: 1 }, "one"], ["pay", { amount: 2 }, "two"]);
    const asked = await server.post("/agents/a/text", { input: calls, options });
    const toResult = (toolCallId: string, approved: unknown) => {
      return { type: "tool-result", toolCallId, toolName: "pay", output: { type: "json", value: { approved } } };
    };
    const input = [{ role: "tool", content: [toResult("one", true), toResult("two", "yes")] }];
    expect(await server.post("/agents/a/text", { input, options })).toMatchObject({ status: 400 });
    for (const { executionId } of asked.body.data.suspensions) {
      const state = await server.get(`/workflows/pay/executions/${executionId}/state`);
      expect(state.body.data.status).toBe("suspended");
    }
  });
});
