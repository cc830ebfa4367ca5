// Each of these changes makes a test of this file fail: a tool without our context, or with ours in place of its own; a key
// that is the same for two calls; a valibot schema that is left to the SDK; a schema without JSON Schema that is accepted.
import { tool } from "ai";
import { defineAgent, defineTool, defineWorkflow, type ToolContext } from "agentserve";
import { scriptedModel } from "agentserve/models";
import * as v from "valibot";
import { expect, it } from "vitest";
import { z } from "zod";
import { describeServer } from "../harness/server.ts";

const echo = defineWorkflow({ id: "echo", input: v.string() }).andThen({ id: "echo", execute: ({ data }) => data });
const seen: ToolContext[] = [];
const plain = tool({
  description: "Starts a workflow",
  inputSchema: v.object({ text: v.pipe(v.string(), v.minLength(2)) }),
  async execute({ text }, { context: given, toolCallId }) {
    const context = given as ToolContext;
    seen.push(context);
    const { status } = await context.runtime.execute(echo, text);
    return `${toolCallId} ${status} for ${context.userId} in ${context.conversationId}: ${context.context.get("tone")}`;
  },
});
const own = tool({
  description: ({ context }) => `Is ${(context as any).tone}, for ${(context as any).agentserve.userId}`,
  inputSchema: z.object({}),
  contextSchema: z.object({ tone: z.string(), level: z.number().default(7) }),
  execute: (_, { context }) => {
    const { agentserve, ...rest } = context as typeof context & { agentserve: ToolContext };
    seen.push(agentserve);
    return rest;
  },
});
const asks = tool({
  description: "Needs approval of other users",
  inputSchema: z.object({}),
  needsApproval: (_, { context }) => (context as unknown as ToolContext).userId !== "ada",
  execute: () => "not asked",
});
const model = scriptedModel(
  Array.from({ length: 30 }, (_, call) =>
    call % 2 === 0
      ? {
          toolCalls: [
            { toolName: "plain", toolCallId: "c1", input: { text: "hello" } },
            { toolName: "plain", toolCallId: "c2", input: { text: "!" } },
            { toolName: "plain", toolCallId: "c3", input: { text: "bye" } },
            { toolName: "own", toolCallId: "c4", input: {} },
            { toolName: "asks", toolCallId: "c5", input: {} },
          ],
        }
      : "done",
  ),
);
const agent = defineAgent({ id: "a", instructions: "x", model, tools: { plain, own, asks } });

const config = { agents: [agent], workflows: [echo] };
describeServer("tools of the AI SDK", { config, only: ["in process"] }, (server) => {
  it.each([undefined, "c"])("gives AI SDK tools the context of the call (conversation: %s)", async (conversation) => {
    seen.splice(0);
    const conversationId = conversation && `${conversation} ${server.target}`;
    const context = { tone: "kind" };
    const options = { userId: "ada", conversationId, context };
    const { status, body } = await server.post("/agents/a/text", { input: "go", options });
    expect(status).toBe(200);
    expect(body.data.text).toBe("done");
    const prompt = model.calls.at(-1)!.prompt.flatMap(({ role, content }) => (role === "tool" ? content : []));
    const results = prompt.map((part) => part.type === "tool-result" && part.output);
    const toText = (id: string) => ({ type: "text", value: `${id} completed for ada in ${conversationId}: kind` });
    expect(results).toHaveLength(5);
    expect(results).toEqual(
      expect.arrayContaining([
        toText("c1"),
        { type: "error-text", value: expect.stringContaining("Invalid length") },
        toText("c3"),
        { type: "json", value: { tone: "kind", level: 7 } },
        { type: "text", value: "not asked" },
      ]),
    );
    expect(seen).toHaveLength(3);
    for (const one of seen) {
      expect(one).toMatchObject({ operationId: expect.any(String), userId: "ada", logger: expect.anything() });
      expect(one.signal).toBeInstanceOf(AbortSignal);
    }
    expect(new Set(seen.map(({ idempotencyKey }) => idempotencyKey)).size).toBe(3);
    const tools = model.calls.at(-1)!.tools!.map((one) => one.type === "function" && one);
    expect(tools).toMatchObject([
      { name: "plain", inputSchema: { type: "object", properties: { text: { type: "string", minLength: 2 } } } },
      { name: "own", description: "Is kind, for ada" },
      { name: "asks" },
    ]);
  });

  it("describes a valibot schema inside of a tool of the SDK", async () => {
    const { body } = await server.get("/agents/a");
    expect(body.data.tools[0].inputSchema).toMatchObject({ properties: { text: { minLength: 2 } } });
  });
});

it("refuses a tool whose schema has no JSON Schema, with the names of agent and tool", () => {
  const inputSchema = {
    "~standard": { version: 1, vendor: "own", validate: (value: unknown) => ({ value }) },
  } as const;
  const sdkTool = tool({ inputSchema, execute: () => 1 } as never);
  for (const odd of [sdkTool, defineTool({ description: "x", inputSchema, execute: () => 1 })])
    expect(() => defineAgent({ id: "a", instructions: "x", model, tools: { odd } })).toThrow(
      new TypeError("agent a: tools.odd.inputSchema: expected a schema with a JSON Schema, or jsonSchema()"),
    );
});
