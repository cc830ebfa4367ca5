import { type as arktype } from "arktype";
import * as v from "valibot";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { andAll, andRace, andTap, andThen, andWhen, andWorkflow, defineWorkflow } from "agentserve";
import type { WorkflowDefinition } from "../../src/engine/definition/definition.ts";
import type { Agent } from "../../src/engine/definition/reference.ts";
import { describeWorkflow } from "../../src/workflows/describe.ts";
import { describeInProcess } from "../harness/server.ts";
import { traitsOf } from "./traits.ts";

const execute = () => 1;
const agent: Agent = { type: "agent", id: "helper" };
const sub = defineWorkflow({
  id: "sub",
  input: v.object({ n: v.number() }),
  suspendSchema: v.object({ asked: v.string() }),
  resumeSchema: v.object({ answered: v.string() }),
}).andThen({ id: "verify", execute });

const everything = defineWorkflow({
  id: "everything",
  name: "Every kind of step",
  purpose: "Shows them all",
  input: v.object({ n: v.number() }),
  suspendSchema: v.object({ question: v.string() }),
  resumeSchema: v.object({ ok: v.boolean() }),
})
  .andThen({
    id: "then",
    name: "First",
    purpose: "Begins",
    inputSchema: v.object({ n: v.number() }),
    outputSchema: v.object({ n: v.number() }),
    suspendSchema: v.object({ why: v.string() }),
    resumeSchema: v.object({ code: v.number() }),
    execute: ({ data }) => data,
  })
  .andWhen({ id: "when", condition: () => true, step: andThen({ id: "inner", execute: ({ data }) => data }) })
  .andAll({ id: "all", steps: [andTap({ id: "a", execute }), andWorkflow({ id: "b", workflow: sub })] })
  .andRace({
    id: "race",
    steps: [andThen({ id: "c", execute }), andAll({ id: "d", steps: [andThen({ id: "e", execute })] })],
  })
  .andTap({ id: "tap", execute })
  .andAgent({ id: "agent", agent, prompt: "hi", schema: z.object({ answer: z.string() }) })
  .andThen({ id: "prepare", execute: () => ({ n: 1 }) })
  .andWorkflow({ id: "workflow", workflow: sub });

const bare = defineWorkflow({ id: "bare" });
const number = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const plain = (id: string, type: string) => ({ id, name: id, type, ...traitsOf[type], purpose: "" });

describeInProcess("GET /workflows", { workflows: [everything, bare] }, (server) => {
  it("lists the workflow summary of the spec: id, name, purpose, stepsCount, status", async () => {
    expect((await server.get("/workflows")).body).toEqual({
      success: true,
      data: [
        { id: "everything", name: "Every kind of step", purpose: "Shows them all", stepsCount: 8, status: "idle" },
        { id: "bare", name: "bare", purpose: "", stepsCount: 0, status: "idle" },
      ],
    });
  });

  it("shows the workflow detail of the spec, with every step type and the steps inside steps", async () => {
    const { data } = (await server.get("/workflows/everything")).body;
    const text = (name: string) => ({ type: "object", properties: { [name]: { type: "string" } }, required: [name] });
    const schemas = { inputSchema: number, suspendSchema: text("asked"), resumeSchema: text("answered") };
    const verify = { ...plain("b", "andWorkflow"), ...schemas, steps: [plain("verify", "andThen")] };
    expect(data).toEqual({
      id: "everything",
      name: "Every kind of step",
      purpose: "Shows them all",
      stepsCount: 8,
      status: "idle",
      inputSchema: number,
      suspendSchema: { type: "object", properties: { question: { type: "string" } }, required: ["question"] },
      resumeSchema: { type: "object", properties: { ok: { type: "boolean" } }, required: ["ok"] },
      steps: [
        {
          id: "then",
          name: "First",
          type: "andThen",
          shape: "leaf",
          purpose: "Begins",
          inputSchema: number,
          outputSchema: number,
          suspendSchema: { type: "object", properties: { why: { type: "string" } }, required: ["why"] },
          resumeSchema: { type: "object", properties: { code: { type: "number" } }, required: ["code"] },
        },
        { ...plain("when", "andWhen"), steps: [plain("inner", "andThen")] },
        { ...plain("all", "andAll"), steps: [plain("a", "andTap"), verify] },
        {
          ...plain("race", "andRace"),
          steps: [plain("c", "andThen"), { ...plain("d", "andAll"), steps: [plain("e", "andThen")] }],
        },
        plain("tap", "andTap"),
        {
          ...plain("agent", "andAgent"),
          outputSchema: {
            type: "object",
            properties: { answer: { type: "string" } },
            required: ["answer"],
            additionalProperties: false,
          },
        },
        plain("prepare", "andThen"),
        { ...verify, id: "workflow", name: "workflow" },
      ],
    });
  });

  it("shows {} for no input schema, and null for no suspend and resume schema", async () => {
    const { data } = (await server.get("/workflows/bare")).body;
    expect([data.inputSchema, data.suspendSchema, data.resumeSchema, data.steps]).toEqual([{}, null, null, []]);
  });
});

describe("JSON Schemas", () => {
  const show = (workflow: WorkflowDefinition) => {
    const warnings: string[] = [];
    return { ...describeWorkflow(workflow, (message) => warnings.push(message)), warnings };
  };
  const age = {
    type: "object",
    properties: { name: { type: "string" }, age: { type: "integer", minimum: 0 } },
    required: ["name"],
  };
  it.each([
    [
      "of valibot",
      v.object({ name: v.string(), age: v.optional(v.pipe(v.number(), v.integer(), v.minValue(0))) }),
      age,
    ],
    [
      "of zod",
      z.object({ name: z.string(), age: z.int().min(0).max(150).optional() }),
      { ...age, properties: { ...age.properties, age: { type: "integer", minimum: 0, maximum: 150 } } },
    ],
    ["of arktype", arktype({ name: "string", "age?": "number.integer >= 0" }), age],
    [
      "by the input side of a schema that transforms",
      v.object({ n: v.pipe(v.string(), v.transform(Number)), m: v.optional(v.number(), 1) }),
      { type: "object", properties: { n: { type: "string" }, m: { type: "number", default: 1 } }, required: ["n"] },
    ],
    [
      "without the parts that only tidy a text",
      v.object({ name: v.pipe(v.string(), v.trim(), v.nonEmpty()) }),
      { type: "object", properties: { name: { type: "string", minLength: 1 } }, required: ["name"] },
    ],
  ])("describes an input %s", (_, input, expected) => {
    const { inputSchema, warnings } = show(defineWorkflow({ id: "w", input }));
    expect([inputSchema, warnings]).toEqual([expected, []]);
  });

  it("shows resume schemas as sent, and suspend schemas as stored", () => {
    const text = v.pipe(v.string(), v.transform(Number), v.number());
    const detail = show(
      defineWorkflow({ id: "w", suspendSchema: text, resumeSchema: text })
        .andThen({ id: "s", suspendSchema: text, resumeSchema: text, execute })
        .andAgent({ id: "g", agent, prompt: "x", schema: v.object({ a: v.string() }), map: () => 1 }),
    );
    for (const shown of [detail, detail.steps[0]!])
      expect([shown.suspendSchema, shown.resumeSchema]).toEqual([{ type: "number" }, { type: "string" }]);
    expect(detail.steps[1]!.outputSchema).toBeUndefined(); // what map makes is not what the agent answers
  });

  it.each([
    ["valibot", v.object({ at: v.date(), n: v.number() })],
    ["zod", z.object({ at: z.date(), n: z.number() })],
    ["arktype", arktype({ at: "Date", n: "number" })],
  ])("shows {} for a schema part that %s cannot convert, with one warning", (_, input) => {
    const { inputSchema, warnings } = show(defineWorkflow({ id: "w", input }));
    expect(inputSchema).toMatchObject({ properties: { at: {}, n: { type: "number" } } });
    expect(warnings).toEqual([expect.stringMatching(/^workflow w: input cannot be fully converted to JSON Schema/)]);
  });

  it("shows {} for a schema library without a converter", () => {
    const input = { "~standard": { version: 1 as const, vendor: "mine", validate: (value: unknown) => ({ value }) } };
    const { inputSchema, warnings } = show(defineWorkflow({ id: "w", input }));
    expect([inputSchema, warnings.length]).toEqual([{}, 1]);
  });
});

describe("a chain", () => {
  it("returns a new workflow at every call of the chain", () => {
    const first = defineWorkflow({ id: "w" });
    const second = first.andThen({ id: "a", execute });
    expect([first.steps.length, second.steps.length]).toEqual([0, 1]);
    expect(() => Object.assign(first, { id: "x" })).toThrow(TypeError);
  });

  const nest = (id: string) =>
    andWhen({ id: "w", condition: () => true, step: andAll({ id: "x", steps: [andThen({ id, execute })] }) });
  it.each([
    [
      "two steps with one id",
      () => defineWorkflow({ id: "w" }).andThen({ id: "a", execute }).andTap({ id: "a", execute }),
      "Workflow w: two steps have the id a",
    ],
    [
      "a nested step with the id of another",
      () =>
        defineWorkflow({ id: "w" })
          .andThen({ id: "a", execute })
          .andAll({ id: "all", steps: [nest("a")] }),
      "Workflow w: two steps have the id a",
    ],
    [
      "a nested step with the id of its parent",
      () => defineWorkflow({ id: "w" }).andAll({ id: "all", steps: [nest("all")] }),
      "Workflow w: two steps have the id all",
    ],
    [
      "a bad workflow id",
      () => defineWorkflow({ id: "a/b" }),
      /^defineWorkflow: id: expected 1 to 128 .*, found "a\/b"$/,
    ],
    ["a bad step id", () => andThen({ id: "-a", execute }), /^andThen: id: expected 1 to 128 .*, found "-a"$/],
    [
      "an id that is too long",
      () => andThen({ id: "a".repeat(129), execute }),
      /^andThen: id: expected 1 to 128 .*, found "a{129}"$/,
    ],
    [
      "an input that is no schema",
      () => defineWorkflow({ id: "w", input: { n: 1 } as never }),
      /^Workflow w: input must be a schema/,
    ],
    [
      "a step's schema that is none",
      () => andThen({ id: "a", execute, resumeSchema: {} as never }),
      /^andThen a: resumeSchema must be a schema/,
    ],
    ["a step without its code", () => andThen({ id: "a" } as never), "andThen a: execute is missing"],
    [
      "a condition without a step",
      () => andWhen({ id: "a", condition: () => true } as never),
      "andWhen a: step is missing",
    ],
    ["branches without steps", () => andAll({ id: "a" } as never), "andAll a: steps is missing"],
    ["a step without its workflow", () => andWorkflow({ id: "a" } as never), "andWorkflow a: workflow is missing"],
    [
      "a race that nobody could win",
      () => andRace({ id: "r", steps: [] }),
      /^andRace r: steps: expected at least one step$/,
    ],
  ])("refuses a workflow definition with %s", (_, make, message) => {
    expect(make).toThrow(message);
  });

  it("allows the same step id inside a sub-workflow", () => {
    const parent = defineWorkflow({ id: "p", input: v.object({ n: v.number() }) })
      .andTap({ id: "verify", execute })
      .andWorkflow({ id: "one", workflow: sub })
      .andThen({ id: "n", execute: () => ({ n: 1 }) })
      .andWorkflow({ id: "two", workflow: sub });
    expect(parent.steps).toHaveLength(4);
  });
});
