// Each of these changes makes a test of this file fail: an execution without the user, the context or the conversation of the
// turn; an input that is converted twice; an error of a step that is shown in production; an execution that a stop cancels; a
// tool that starts a workflow without asking `authorize`, or for an anonymous caller.
import { createToken, defineAgent, defineWorkflow, jwtAuth, ServeError, workflowTool } from "agentserve";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { createGates } from "../../harness/gates.ts";
import { describeServer, startServer, startTestServer, type TestServer } from "../../harness/server.ts";
import { until, within } from "../../harness/waiting.ts";
import { stop, stored, unique } from "../turns/turn-server.ts";
import { directedModel, toCalls } from "./directed-model.ts";

const gates = createGates();
const order = defineWorkflow({
  id: "order",
  purpose: "Orders an item",
  input: v.object({ item: v.string(), day: v.pipe(v.string(), v.transform(Number)) }),
  result: v.object({ item: v.string(), day: v.number(), by: v.string() }),
}).andThen({
  id: "order",
  execute: ({ data, context }) => ({ ...data, by: `${context.get("userId")} ${context.get("tone")}` }),
});
const open = defineWorkflow({ id: "open", name: "Takes anything" }).andThen({ id: "x", execute: ({ data }) => data });
const fails = defineWorkflow({ id: "fails", input: v.object({ isShown: v.boolean() }) }).andThen({
  id: "x",
  execute({ data: { isShown } }) {
    throw isShown ? new ServeError(422, "Sold out") : new Error("secret of the database");
  },
});
const slow = defineWorkflow({ id: "slow", input: v.object({ key: v.string() }) }).andThen({
  id: "x",
  async execute({ data }) {
    await gates.pass(data.key);
    return "slowly done";
  },
});
const model = directedModel();
const agent = defineAgent({
  id: "a",
  instructions: "x",
  model,
  tools: {
    order: workflowTool(order),
    byId: workflowTool("order", { description: "Orders by id" }),
    open: workflowTool(open),
    fails: workflowTool(fails),
    slow: workflowTool(slow),
  },
});
const workflows = [order, open, fails, slow];

describeServer("workflowTool", { config: { agents: [agent], workflows }, only: ["in process", "dev"] }, (server) => {
  it.each([undefined, "c"])("workflowTool starts an execution of the caller (conversation: %s)", async (name) => {
    const conversationId = name && unique(name);
    const options = { userId: "ada", conversationId, context: { tone: "kind" } };
    const input = toCalls(["order", { item: "tea", day: "3" }], ["byId", { item: "milk", day: "4" }]);
    const { status, body } = await server.post("/agents/a/text", { input, options });
    expect(status).toBe(200);
    // In the order of their ends, which need not be that of the calls.
    const outputs = body.data.toolResults.map(({ output }: any) => output).toSorted((x: any, y: any) => x.day - y.day);
    expect(outputs).toEqual([
      { item: "tea", day: 3, by: "ada kind" },
      { item: "milk", day: 4, by: "ada kind" },
    ]);
    const { items } = (await server.get("/workflows/order/executions?limit=2")).body.data;
    for (const { executionId, context, status: ended } of items) {
      expect(executionId).toMatch(/^child:[\w-]{22}$/);
      expect(ended).toBe("completed");
      expect(context).toEqual({ userId: "ada", tone: "kind", ...(conversationId && { conversationId }) });
    }
    expect(new Set(items.map(({ executionId }: any) => executionId)).size).toBe(2);
  });

  it("workflowTool tells the model of a wrong input, and takes any object without a schema", async () => {
    const input = toCalls(["order", { item: 7 }], ["open", { any: ["thing"] }], ["open", "text"]);
    const { body } = await server.post("/agents/a/text", { input });
    expect(body.data.toolResults.map(({ output, error }: any) => output ?? error)).toEqual(
      expect.arrayContaining([
        expect.stringContaining("item"),
        { any: ["thing"] },
        expect.stringMatching(/type|object/i),
      ]),
    );
  });

  it("reports a failed execution as the error of its workflowTool, without internals in production", async () => {
    const input = toCalls(["fails", { isShown: true }], ["fails", { isShown: false }]);
    const { body } = await server.post("/agents/a/text", { input });
    const hidden = server.target === "dev" ? "secret of the database" : "Failed to execute workflow";
    expect(body.data.toolResults.map(({ error }: any) => error)).toEqual(["Sold out", hidden]);
    expect(body.data.text).toBe(JSON.stringify(["Sold out", hidden]));
  });

  it("reports a cancelled execution as the error of its workflowTool", async () => {
    const key = unique("cancelled");
    const asked = server.post("/agents/a/text", { input: toCalls(["slow", { key }]) });
    const id = await running(server, key);
    await server.post(`/workflows/slow/executions/${id}/cancel`, {});
    const { body } = await within(asked);
    expect(body.data.toolResults).toMatchObject([{ error: `Execution ${id} was cancelled` }]);
    gates.open(key);
  });

  it("lets the execution of a workflowTool continue when the turn is stopped", async () => {
    const [key, conversationId] = [unique("stopped"), unique("c")];
    const options = { conversationId };
    const asked = server.post("/agents/a/text", { input: toCalls(["slow", { key }]), options });
    const id = await running(server, key);
    expect((await stop(server, "a", conversationId)).body.data.stopped).toBe(true);
    expect((await within(asked)).status).toBe(409);
    const [, answer] = await stored(server, "a", conversationId, 2);
    expect(answer!.parts).toContainEqual(expect.objectContaining({ state: "output-error", errorText: "Stopped" }));
    gates.open(key);
    await until(async () => (await stateOf(server, id)).status === "completed", "the end of the workflow");
    expect((await stateOf(server, id)).result).toBe("slowly done");
  });

  it("shows workflowTools with the description and the input of their workflows", async () => {
    const { tools } = (await server.get("/agents/a")).body.data;
    const inputSchema = expect.objectContaining({ type: "object", required: ["item", "day"] });
    expect(tools.slice(0, 3)).toEqual([
      { name: "order", description: "Orders an item", workflowId: "order", inputSchema },
      { name: "byId", description: "Orders by id", workflowId: "order", inputSchema },
      {
        name: "open",
        description: "Takes anything",
        workflowId: "open",
        inputSchema: { type: "object", additionalProperties: true },
      },
    ]);
    await server.post("/agents/a/text", { input: "hello" });
    const shown = model.calls.at(-1)!.tools!.map((tool) => "description" in tool && tool.description);
    expect(shown.slice(0, 3)).toEqual(["Orders an item", "Orders by id", "Takes anything"]);
  });
});

async function running(server: TestServer, key: string): Promise<string> {
  await within(gates.reached(key));
  const { items } = (await server.get("/workflows/slow/executions?status=running&limit=100")).body.data;
  return items.find(({ input }: any) => input.key === key).executionId;
}
const stateOf = async (server: TestServer, id: string) =>
  (await server.get(`/workflows/slow/executions/${id}/state`)).body.data;

describe("with an authentication provider", () => {
  const secret = "a secret of at least thirty-two characters";
  const asked: unknown[] = [];
  const tools = { order: workflowTool(order), open: workflowTool(open, { anonymous: true }) };
  const config = {
    agents: [
      defineAgent({ id: "a", instructions: "x", model: directedModel(), tools, authorize: () => true }),
      defineAgent({ id: "strict", instructions: "x", model: directedModel(), tools }),
    ],
    workflows: [order, open],
    auth: jwtAuth({ secret, publicRoutes: ["POST /agents/a/text", "POST /agents/strict/text"] }),
  };
  const input = toCalls(["order", { item: "tea", day: "3" }], ["open", {}]);
  const results = ({ body }: { body: any }) => body.data.toolResults.map(({ output, error }: any) => error ?? output);

  it.each(["a", "strict"])("workflowTool refuses an anonymous caller unless told otherwise (%s)", async (id) => {
    const server = await startTestServer("in process", { config });
    for (const conversationId of [undefined, unique("c")]) {
      const options = { userId: "ada", conversationId };
      expect(results(await server.post(`/agents/${id}/text`, { input, options }))).toEqual(["Forbidden", {}]);
    }
    const headers = { authorization: `Bearer ${await createToken({ sub: "ada" }, secret)}` };
    expect((await server.get("/workflows/order/executions", { headers })).body.data.items).toEqual([]);
    expect(results(await server.post(`/agents/${id}/text`, { input }, { headers }))[0]).toMatchObject({ day: 3 });
    const { items } = (await server.get("/workflows/order/executions", { headers })).body.data;
    expect(items).toMatchObject([{ context: { userId: "ada" }, status: "completed" }]);
  });

  it("workflowTool asks `authorize` about workflow.execute, with the user of the turn", async () => {
    const server = await startTestServer("in process", {
      config: {
        ...config,
        authorize({ action, user, workflowId }) {
          if (action === "workflow.execute") asked.push([user?.["sub"], workflowId]);
          return action !== "workflow.execute" || user?.["sub"] === "ada";
        },
      },
    });
    for (const [sub, isAllowed] of [["ada", true] as const, ["eve", false] as const]) {
      const headers = { authorization: `Bearer ${await createToken({ sub }, secret)}` };
      const [first, second] = results(await server.post("/agents/strict/text", { input }, { headers }));
      if (isAllowed) expect([first.item, second]).toEqual(["tea", {}]);
      else expect([first, second]).toEqual(["Forbidden", "Forbidden"]);
    }
    expect(asked.toSorted()).toEqual([
      ["ada", "open"],
      ["ada", "order"],
      ["eve", "open"],
      ["eve", "order"],
    ]);
  });
});

describe("workflowTool()", () => {
  it.each<[options: object, message: string]>([
    [{ name: "x" }, 'workflowTool: unknown option "name"'],
    [{ description: 7 }, "workflowTool: description: expected a text"],
    [{ anonymous: "yes" }, "workflowTool: anonymous: expected true or false"],
  ])("workflowTool refuses %j", (options, message) => {
    expect(() => workflowTool(order, options)).toThrow(new TypeError(message));
  });

  it("workflowTool refuses something that is not a workflow", () => {
    expect(() => workflowTool(agent as never)).toThrow("workflowTool: expected a workflow or its id");
    expect(() => workflowTool(undefined as never)).toThrow("workflowTool: expected a workflow or its id");
  });

  it("workflowTool is refused at the start if its workflow is not served", async () => {
    const lost = defineAgent({ id: "lost", instructions: "x", model, tools: { order: workflowTool(order) } });
    await expect(startServer("in process", { config: { agents: [lost] } })).rejects.toThrow(
      "agent lost: tool order: there is no workflow order",
    );
  });

  it("workflowTool has the types of its workflow", () => {
    const tool = workflowTool(order);
    type Types = NonNullable<(typeof tool)["~types"]>;
    const start: Parameters<Types>[0] = { item: "tea", day: "3" };
    const result: ReturnType<Types> = { item: "tea", day: 3, by: "ada" };
    // @ts-expect-error: the day is sent as a text
    const wrong: Parameters<Types>[0] = { item: "tea", day: 3 };
    expect([start, result, wrong]).toHaveLength(3);
  });
});
