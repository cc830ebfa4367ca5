// Each of these changes makes a test of this file fail: an inner agent that is shown the conversation, or that has none of the
// user and the context; a chain of agents without an end; a model call of the inner agent that is made again after a restart; a
// tool of the inner agent that runs without its approval; an agent that is asked without `authorize`, or for an anonymous caller.
import { join } from "node:path";
import { agentTool, createToken, defineTool, defineWorkflow, jwtAuth } from "agentserve";
import { scriptedModel } from "agentserve/models";
import { tool } from "ai";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createFolder } from "../../harness/folders.ts";
import { openPlace } from "../../harness/places.ts";
import { describeServer, startServer, startTestServer } from "../../harness/server.ts";
import { within } from "../../harness/waiting.ts";
import { stored, toAgent, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls } from "./directed-model.ts";

const whoami = defineTool({
  description: "Tells the user",
  inputSchema: v.object({}),
  execute: (_, { context: { userId, conversationId, context } }) => [userId, conversationId, context.get("tone")],
});
const pays = tool({
  description: "Pays",
  inputSchema: v.object({}),
  needsApproval: true,
  execute: () => "paid without an approval",
});
const innerModel = directedModel();
const inner = toAgent(innerModel, "inner", { tools: { whoami, pays } });
const outer = toAgent(directedModel(), "outer", {
  tools: {
    inner: agentTool(inner, { description: "Asks the inner agent" }),
    itself: agentTool("outer", { description: "Asks this agent" }),
  },
});

describeServer("agentTool", { config: { agents: [inner, outer] }, only: ["in process"] }, (server) => {
  it.each([undefined, "c"])("agentTool asks as the user, and shares no messages (conversation: %s)", async (name) => {
    const conversationId = name && unique(name);
    const options = { userId: "ada", conversationId, context: { tone: "kind" } };
    const prompt = toCalls(["whoami", {}]);
    const { status, body } = await server.post("/agents/outer/text", {
      input: toCalls(["inner", { prompt }], ["inner", { prompt: 7 }]),
      options,
    });
    expect(status).toBe(200);
    const [answered, refused] = body.data.toolResults.toSorted((one: any) => (one.error ? 1 : -1));
    expect(answered.output).toBe(JSON.stringify([["ada", null, "kind"]]));
    expect(refused.error).toContain("prompt");
    const shown = innerModel.calls.at(-1)!.prompt.filter(({ role }) => role === "user");
    expect(shown).toMatchObject([{ content: [{ type: "text", text: prompt }] }]);
    if (conversationId) expect(await stored(server, "inner", conversationId, 0, "ada")).toEqual([]);
  });

  it("ends a chain of agents that ask each other", async () => {
    let prompt = "the end";
    for (let depth = 0; depth < 6; depth++) prompt = toCalls(["itself", { prompt }]);
    const { body } = await server.post("/agents/outer/text", { input: prompt });
    expect(body.data.text).toContain("More than 5 agents wait for each other");
    prompt = "the end";
    for (let depth = 0; depth < 5; depth++) prompt = toCalls(["itself", { prompt }]);
    const other = await server.post("/agents/outer/text", { input: prompt });
    expect(other.body.data.text).toContain("No tools for the end");
  });

  it("agentTool does not wait for an approval without a conversation", async () => {
    const input = toCalls(["inner", { prompt: toCalls(["pays", {}]) }]);
    const { body } = await server.post("/agents/outer/text", { input });
    expect(JSON.stringify(body.data)).not.toContain("paid without an approval");
    expect(body.data.toolResults[0].output).toContain("denied");
  });

  it("shows an agentTool with the id of its agent", async () => {
    const { tools } = (await server.get("/agents/outer")).body.data;
    expect(tools[0]).toMatchObject({
      name: "inner",
      description: "Asks the inner agent",
      agentId: "inner",
      inputSchema: { type: "object", required: ["prompt"] },
    });
  });
});

it.each(["a chat", "a step"])(
  "makes no recorded call of the inner agent again after a restart, in %s",
  async (kind) => {
    const folder = createFolder("agent-tool");
    const held = Promise.withResolvers<void>();
    const run: string[] = [];
    const step = (name: string, execute: () => unknown) =>
      defineTool({
        description: name,
        inputSchema: v.object({}),
        execute(_, { idempotencyKey }) {
          run.push(`${name} ${idempotencyKey}`);
          return execute();
        },
      });
    const call = (toolName: string, input = {}) => ({ toolCalls: [{ toolName, toolCallId: toolName, input }] });
    async function live(innerScript: any[], outerScript: any[], hold: () => unknown) {
      const models = { inner: scriptedModel(innerScript), outer: scriptedModel(outerScript) };
      const tools = { quick: step("quick", () => "quickly"), hold: step("hold", hold) };
      const asked = toAgent(models.inner, "inner", { tools });
      const agent = toAgent(models.outer, "outer", { tools: { inner: agentTool(asked, { description: "Asks" }) } });
      const workflow = defineWorkflow({ id: "w" }).andAgent({ id: "ask", agent, prompt: () => "go" });
      const server = await startTestServer("in process", {
        config: {
          agents: [asked, agent],
          workflows: [workflow],
          backend: await openPlace(join(folder, "data.db")),
          server: { limits: { drainMs: 1 } },
        },
      });
      return { server, models };
    }
    const first = await live([call("quick"), call("hold")], [call("inner", { prompt: "please" })], () => {
      held.resolve();
      return new Promise<never>(() => {});
    });
    const headers = { prefer: "respond-async" };
    if (kind === "a chat") {
      await first.server.post("/agents/outer/text", { input: "go", options: { conversationId: "c" } }, { headers });
    } else await first.server.post("/workflows/w/execute", { input: {}, options: { executionId: "w" } }, { headers });
    await within(held.promise);
    await first.server.close();

    const second = await live(["inner answer"], ["outer answer"], () => "held no more");
    if (kind === "a chat") {
      const [, answer] = await stored(second.server, "outer", "c", 2);
      expect(JSON.stringify(answer)).toContain("outer answer");
    } else {
      const { events } = await second.server.get("/workflows/w/executions/w/stream");
      expect(events.at(-1)).toMatchObject({ status: "completed", result: "outer answer" });
    }
    expect([second.models.inner.calls.length, second.models.outer.calls.length]).toEqual([1, 1]);
    const [quick, ...holds] = run;
    expect(quick).toMatch(/^quick /);
    expect(holds).toEqual([holds[0], holds[0]]);
    expect(holds[0]).toMatch(/^hold .+\/inner\/hold$/);
  },
);

describe("with an authentication provider", () => {
  const secret = "a secret of at least thirty-two characters";
  const open = toAgent(directedModel(), "open");
  const config = {
    agents: [
      inner,
      open,
      toAgent(directedModel(), "a", {
        tools: {
          inner: agentTool(inner, { description: "Asks" }),
          open: agentTool(open, { description: "Asks", anonymous: true }),
        },
      }),
    ],
    auth: jwtAuth({ secret, publicRoutes: ["POST /agents/a/text"] }),
  };
  const input = toCalls(["inner", { prompt: "hello" }], ["open", { prompt: "hello" }]);
  const results = ({ body }: { body: any }) => body.data.toolResults.map(({ output, error }: any) => error ?? output);
  const answer = "No tools for hello";

  it("agentTool refuses an anonymous caller unless it says otherwise, and asks `authorize` about agent.call", async () => {
    const server = await startTestServer("in process", { config });
    const refused = await server.post("/agents/a/text", { input });
    expect(results(refused)).toEqual(["Forbidden", answer]);
    // The model is shown the same text.
    expect(JSON.parse(refused.body.data.text).toSorted()).toEqual(["Forbidden", answer]);
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` };
    expect(results(await server.post("/agents/a/text", { input }, { headers }))).toEqual([answer, answer]);

    const strict = await startTestServer("in process", {
      config: { ...config, authorize: ({ action, agentId }) => action === "agent.call" && agentId !== "inner" },
    });
    expect(results(await strict.post("/agents/a/text", { input }, { headers }))).toEqual(["Forbidden", answer]);
  });
});

describe("agentTool()", () => {
  it("agentTool refuses wrong options, and something that is not an agent", () => {
    expect(() => agentTool(inner, {} as never)).toThrow(new TypeError("agentTool: description is missing"));
    expect(() => agentTool(inner, { description: "x", more: 1 } as never)).toThrow('agentTool: unknown option "more"');
    expect(() => agentTool({ id: "x" } as never, { description: "x" })).toThrow("agentTool: expected an agent");
  });

  it("agentTool is refused at the start if its agent is not served", async () => {
    await expect(startServer("in process", { config: { agents: [outer] } })).rejects.toThrow(
      "agent outer: tool inner: there is no agent inner",
    );
  });
});
