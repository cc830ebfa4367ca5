import { tool } from "ai";
import * as v from "valibot";
import { describe, expect, expectTypeOf, it } from "vitest";
import { z } from "zod";
import {
  andAgent,
  createServer,
  defineAgent,
  defineTool,
  defineWorkflow,
  embedded,
  type AgentDefinition,
  type Config,
  type DefineAgentOptions,
} from "agentserve";
import { echoModel, scriptedModel } from "agentserve/models";
import { startServer, startTestServer } from "../harness/server.ts";

const fine: DefineAgentOptions = { id: "a", instructions: "x", model: echoModel() };
const serve = (config: Config) => startTestServer("in process", { config });

describe("defineAgent", () => {
  const wrong: [string, object, string | RegExp][] = [
    ["an id that cannot stand in a URL", { id: "a b" }, /^defineAgent: id: expected 1 to 128 .*, found "a b"$/],
    [
      "no instructions",
      { instructions: undefined },
      "agent a: instructions: expected a string, or a function that returns one",
    ],
    ["a model that is none", { model: {} }, 'agent a: model: expected an AI SDK language model, or "provider/model"'],
    ["a model name without a provider", { model: "gpt" }, "agent a: model: expected"],
    ["tools in an array", { tools: [] }, "agent a: tools: expected an object of tools by name"],
    ["a tool that is none", { tools: { x: 5 } }, "agent a: tools: expected"],
    ["no step at all", { maxSteps: 0 }, "agent a: maxSteps: expected a whole number of at least 1"],
    ["memory that is neither", { memory: "yes" }, "agent a: memory: expected true or false"],
    ["an authorize that is no function", { authorize: true }, "agent a: authorize: expected a function"],
    ["a hook that is no function", { hooks: { onStart: 5 } }, "agent a: hooks: expected"],
    [
      "a hook with another name",
      { hooks: { onStrat() {} } },
      "agent a: hooks.onStrat: expected one of onStart, onStepEnd",
    ],
    ["retries below zero", { maxRetries: -1 }, "agent a: maxRetries: expected a whole number of at least 0"],
    ["a setting of another type", { temperature: "hot" }, "agent a: temperature: expected a number"],
    ["stop sequences that are none", { stopSequences: "x" }, "agent a: stopSequences: expected an array of strings"],
    ["a tool without a schema", { tools: { x: {} } }, "agent a: tools: expected"],
    ["an unknown option", { temprature: 1 }, 'agent a: unknown option "temprature"'],
  ];
  it.each(wrong)("defineAgent refuses %s", (_, options, message) => {
    expect(() => defineAgent({ ...fine, ...options } as never)).toThrow(message);
  });

  it("defineAgent fills in the defaults of its options", () => {
    expect(defineAgent(fine)).toMatchObject({ name: "a", description: "", maxSteps: 10, memory: true, tools: {} });
  });
});

describe("agent.with", () => {
  const lookUp = defineTool({ description: "", inputSchema: v.object({ n: v.number() }), execute: ({ n }) => n });
  const support = defineAgent({
    id: "support",
    name: "Support",
    instructions: "You help.",
    model: "openai/gpt-5",
    tools: { lookUp },
    maxSteps: 3,
    temperature: 0.5,
    seed: 7,
  });

  it("agent.with returns an agent of the same id that answers with another model, instructions and settings", async () => {
    const model = scriptedModel(["Hi!"]);
    const server = await serve({ agents: [support.with({ model, instructions: "Be brief.", temperature: 0 })] });
    const { body } = await server.post("/agents/support/text", { input: "Hello" });
    expect(body.data.text).toBe("Hi!");
    const [call] = model.calls;
    expect(call).toMatchObject({ temperature: 0, seed: 7, tools: [{ name: "lookUp" }] });
    expect(call!.prompt[0]).toEqual({ role: "system", content: "Be brief." });
  });

  it("agent.with keeps all other options, and leaves the first agent as it is", () => {
    const model = echoModel();
    const { with: first, ...before } = support;
    const { with: second, ...after } = support.with({ model });
    expect(after).toEqual({ ...before, model });
    expect(support.model).toBe("openai/gpt-5");
    expect([first, second]).toEqual([expect.any(Function), expect.any(Function)]);
  });

  it("agent.with restores the default of an option that is undefined", () => {
    const plain = support.with({ name: undefined, tools: undefined, maxSteps: undefined, temperature: undefined });
    expect(plain).toMatchObject({ name: "support", tools: {}, maxSteps: 10, settings: { seed: 7 } });
    expect(plain.settings).not.toHaveProperty("temperature");
    expect(support.with({ tools: {} }).tools).toEqual({});
  });

  it("agent.with can be called on its own result, and without the agent in front", () => {
    const { with: replace } = support.with({ maxSteps: 5 });
    expect(replace({ memory: false })).toMatchObject({ id: "support", maxSteps: 5, memory: false });
  });

  it("agent.with returns a frozen agent", () => {
    expect([support, support.with({ model: echoModel() })].every(Object.isFrozen)).toBe(true);
  });

  it.each([
    ["a model that is none", { model: {} }, "agent support: model: expected an AI SDK language model"],
    ["no model", { model: undefined }, "agent support: model: expected an AI SDK language model"],
    ["an unknown option", { temprature: 1 }, 'agent support: unknown option "temprature"'],
    ["another id", { id: "other" }, "agent support: with() cannot replace the id"],
    ["no object", undefined, "agent support: with: expected an object of options"],
  ])("agent.with refuses %s", (_, overrides, message) => {
    expect(() => support.with(overrides as never)).toThrow(message);
  });

  it("refuses to serve an agent together with one that its `with` returned", () => {
    const agents = [support, support.with({ model: echoModel() })];
    expect(() => createServer({ agents, backend: embedded({ path: ":memory:" }) })).toThrow(
      "Two agents have the id support: both in config",
    );
  });

  it("agent.with does not change the agent of a workflow step", async () => {
    const create = (agent: AgentDefinition) =>
      defineWorkflow({ id: "w" }).andAgent({ id: "ask", agent, prompt: "Hello" });
    const scripted = (text: string) => support.with({ model: scriptedModel([text]) });
    const workflows = [create(scripted("of the workflow"))];
    const server = await serve({ agents: [scripted("of the config")], workflows });
    expect((await server.post("/workflows/w/execute", { input: {} })).body.data.result).toBe("of the workflow");
  });

  it("agent.with keeps the type of the id, and compiles only with options of an agent", () => {
    expectTypeOf(support.with({ model: echoModel() })).toEqualTypeOf<AgentDefinition<"support">>();
    expectTypeOf(support.with({})).toExtend<AgentDefinition>();
    expectTypeOf<AgentDefinition<"support">>().toExtend<AgentDefinition>();
    expectTypeOf<AgentDefinition>().not.toExtend<AgentDefinition<"support">>();
    () => {
      // @ts-expect-error the id is not an override
      support.with({ id: "other" });
      // @ts-expect-error no such option
      support.with({ temprature: 1 });
      // @ts-expect-error a model is not a number
      support.with({ model: 5 });
      // @ts-expect-error the overrides are missing
      support.with();
    };
  });
});

describe("defineTool", () => {
  const inputSchema = v.object({ n: v.number() });
  const execute = () => 1;
  const wrong: [string, object, string][] = [
    ["no description", { inputSchema, execute }, "description is missing"],
    ["an input schema that is none", { description: "", inputSchema: {}, execute }, "inputSchema must be a schema"],
    [
      "an output schema that is none",
      { description: "", inputSchema, outputSchema: {}, execute },
      "outputSchema must be a schema",
    ],
    ["nothing to execute", { description: "", inputSchema }, "execute is missing"],
  ];
  it.each(wrong)("defineTool refuses %s", (_, options, message) =>
    expect(() => defineTool(options as never)).toThrow(`defineTool: ${message}`),
  );

  it("defineTool infers the type of its input from the schema", () => {
    defineTool({
      description: "",
      inputSchema,
      execute: (input) => expectTypeOf(input).toEqualTypeOf<{ n: number }>(),
    });
    const text = z.object({ at: z.string() });
    defineTool({
      description: "",
      inputSchema: text,
      execute: (input) => expectTypeOf(input).toEqualTypeOf<{ at: string }>(),
    });
  });
});

it("an agent takes tools of the AI SDK as they are, with their types", () => {
  const sdk = tool({ inputSchema: z.object({ n: z.number() }), execute: ({ n }) => n });
  const own = defineTool({ description: "", inputSchema: z.object({ n: z.number() }), execute: ({ n }) => n });
  expect(Object.keys(defineAgent({ ...fine, tools: { sdk, own } }).tools)).toEqual(["sdk", "own"]);
});

it("refuses two agents with one id, and serves an agent that is given twice once", async () => {
  const agent = defineAgent(fine);
  const server = await serve({ agents: [agent, agent] });
  expect((await server.get("/agents")).body.data).toHaveLength(1);
  const config = { agents: [agent, defineAgent(fine)] };
  await expect(startServer("in process", { config })).rejects.toThrow("Two agents have the id a: both in config");
});

it("andAgent asks an agent for text, for an object, and with a map", async () => {
  const agent = defineAgent(fine);
  const workflow = defineWorkflow({ id: "w", input: v.object({ topic: v.string() }) })
    .andAgent({ id: "text", agent, prompt: ({ data }) => `about ${data.topic}` })
    .andAgent({
      id: "object",
      agent,
      prompt: ({ data }) => [{ role: "user", content: `${data} 3` }],
      schema: v.object({ title: v.string(), n: v.pipe(v.number(), v.transform(String)) }),
    })
    .andAll({
      id: "both",
      steps: [
        andAgent({ id: "mapped", agent, prompt: "ten", map: (answer) => answer.length }),
        andAgent({ id: "list", agent, prompt: "5", schema: v.array(v.number()) }),
      ],
    });
  const server = await serve({ workflows: [workflow] });
  const { body } = await server.post("/workflows/w/execute", { input: { topic: "cats" } });
  expect(body.data).toMatchObject({ status: "completed", result: [3, [5]] });
});
