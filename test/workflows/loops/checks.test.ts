import {
  andBranch,
  andDoUntil,
  andDoWhile,
  andForEach,
  andMap,
  andThen,
  andWorkflow,
  defineWorkflow,
} from "agentserve";
import { describe, expect, it } from "vitest";

// Options that TypeScript refuses as well: not every author uses it.
const loose = <T>(options: T): never => options as never;
const condition = () => true;
const step = (id = "pay") => andThen({ id, execute: () => 1 });

describe("a loop", () => {
  it.each([
    ["neither step nor steps", { id: "each" }, "step is missing"],
    ["both step and steps", { id: "each", step: step(), steps: [step()] }, "expected either step or steps, found both"],
    ["no steps", { id: "each", steps: [] }, "steps: expected at least one step"],
    ["steps that are not a list", { id: "each", steps: step() }, "steps: expected an array"],
    ["a function for a step", { id: "each", step: () => 1 }, "step: expected a step, such as andThen({ … })"],
    ["null among its steps", { id: "each", steps: [null] }, "steps: expected a step, such as andThen({ … })"],
  ])("refuses a loop with %s", (_, options, message) => {
    expect(() => andForEach(loose(options))).toThrow(new TypeError(`andForEach each: ${message}`));
    for (const [name, make] of Object.entries({ andDoWhile, andDoUntil }))
      expect(() => make(loose({ condition, ...options }))).toThrow(new TypeError(`${name} each: ${message}`));
  });

  it.each([0, -1, 1.5, Number.NaN, "3", null])("refuses %j for the concurrency or maxIterations of a loop", (wrong) => {
    const rule = "expected a whole number from 1, or Infinity";
    expect(() => andForEach(loose({ id: "each", step: step(), concurrency: wrong }))).toThrow(
      `andForEach each: concurrency: ${rule}`,
    );
    expect(() => andDoWhile(loose({ id: "loop", step: step(), condition, maxIterations: wrong }))).toThrow(
      `andDoWhile loop: maxIterations: ${rule}`,
    );
  });

  it.each([
    [{ onError: "ignore" }, 'onError: expected "fail" or "collect"'],
    [{ items: [1, 2] }, "items: expected a function"],
    [{ map: {} }, "map: expected a function"],
  ])("refuses andForEach with %j", (options, message) => {
    expect(() => andForEach(loose({ id: "each", step: step(), ...options }))).toThrow(`andForEach each: ${message}`);
  });

  it("refuses andDoUntil without a condition", () => {
    expect(() => andDoUntil(loose({ id: "loop", step: step() }))).toThrow("andDoUntil loop: condition is missing");
  });

  it("refuses a step in a loop or branch with the id of another step", () => {
    const w = defineWorkflow({ id: "w" }).andThen({ id: "pay", execute: () => [1] });
    const message = "Workflow w: two steps have the id pay";
    expect(() => w.andForEach({ id: "each", step: step() })).toThrow(message);
    expect(() => w.andForEach({ id: "pay", step: step("other") })).toThrow(message);
    expect(() => w.andForEach({ id: "each", step: andForEach(loose({ id: "inner", step: step() })) })).toThrow(message);
    expect(() => w.andDoWhile({ id: "loop", condition, step: loose(step()) })).toThrow(message);
    expect(() => w.andBranch({ id: "b", branches: [{ condition, step: step() }] })).toThrow(message);
    expect(() => w.andForEach({ id: "each", steps: [step("a"), step("a")] })).toThrow(
      "Workflow w: two steps have the id a",
    );
  });
});

describe("andBranch", () => {
  it.each([
    ["no branches", { id: "b" }, "branches: expected at least one branch"],
    ["an empty list", { id: "b", branches: [] }, "branches: expected at least one branch"],
    ["a branch without a condition", { id: "b", branches: [{ step: step() }] }, "branches[0]: condition is missing"],
    [
      "a branch without a step",
      { id: "b", branches: [{ condition, step: step() }, { condition }] },
      "branches[1]: step: expected a step, such as andThen({ … })",
    ],
    ["a branch that is null", { id: "b", branches: [null] }, "branches[0]: condition is missing"],
  ])("refuses andBranch with %s", (_, options, message) => {
    expect(() => andBranch(loose(options))).toThrow(new TypeError(`andBranch b: ${message}`));
  });
});

describe("andMap", () => {
  const sources = "expected value, data, input, step, context, fn";
  it.each([
    ["no map", undefined, "andMap m: map is missing"],
    ["an unknown source", { a: { source: "nowhere" } }, `andMap m: map.a.source: ${sources}`],
    ["a source of Object.prototype", { a: { source: "toString" } }, `andMap m: map.a.source: ${sources}`],
    ["a field without a source", { a: 1 }, `andMap m: map.a.source: ${sources}`],
    ["a field that is null", { a: null }, `andMap m: map.a.source: ${sources}`],
    ["a step without its id", { a: { source: "step" } }, "andMap m: map.a.stepId: expected a string"],
    ["a key that is missing", { a: { source: "context" } }, "andMap m: map.a.key: expected a string"],
    ["a function that is missing", { a: { source: "fn" } }, "andMap m: map.a.fn: expected a function"],
    ["a path that is not text", { a: { source: "data", path: ["a"] } }, "andMap m: map.a.path: expected a string"],
  ])("refuses andMap with %s", (_, map, message) => {
    expect(() => andMap(loose({ id: "m", map }))).toThrow(message);
  });

  const sub = defineWorkflow({ id: "sub" }).andThen({ id: "verify", execute: () => 1 });
  const reads = (stepId: string) => andMap({ id: "m", map: { a: { source: "step", stepId } } });
  const chain = () =>
    defineWorkflow({ id: "w" })
      .andThen({ id: "list", execute: () => [1] })
      .andForEach({ id: "each", steps: [step(), loose(andWorkflow({ id: "check", workflow: sub }))] })
      .andAll({ id: "all", steps: [step("left"), andWorkflow({ id: "sub", workflow: loose(sub) })] });
  const refusal = (stepId: string) => `Workflow w: andMap m: map.a.stepId: no step before it has the path "${stepId}"`;

  it.each(["list", "each", "each/0/pay", "each/99999/check/verify", "each/7/check", "left", "all", "sub/verify"])(
    "lets andMap read the output of %s",
    (stepId) => {
      expect(chain().andAll({ id: "last", steps: [reads(stepId)] }).steps).toHaveLength(4);
    },
  );

  it.each([
    "nobody",
    "pay",
    "each/pay",
    "each/0",
    "each/x/pay",
    "each/-1/pay",
    "each/01/pay",
    "verify",
    "m",
    "last",
    "",
  ])("refuses andMap that reads the output of %j", (stepId) => {
    expect(() => chain().andAll({ id: "last", steps: [reads(stepId)] })).toThrow(new TypeError(refusal(stepId)));
  });

  it("lets andMap in an item read the steps before it by id, and other items by number", () => {
    const each = (stepId: string) => () =>
      chain().andForEach({ id: "second", items: () => [1], steps: [step("a"), loose(reads(stepId)), step("b")] });
    for (const stepId of ["a", "list", "second/0/b", "second/0/a", "each/0/pay"])
      expect(each(stepId), stepId).not.toThrow();
    for (const stepId of ["b", "second", "second/a", "pay"]) expect(each(stepId), stepId).toThrow(refusal(stepId));
  });

  it("lets andMap read an earlier branch, and no later one", () => {
    const w = defineWorkflow({ id: "w" });
    expect(() => w.andAll({ id: "all", steps: [step("a"), reads("a")] })).not.toThrow();
    expect(() => w.andAll({ id: "all", steps: [reads("a"), step("a")] })).toThrow(refusal("a"));
  });

  it("checks the paths of andMap in a sub-workflow when that is defined", () => {
    const inner = () =>
      defineWorkflow({ id: "w" })
        .andThen({ id: "verify", execute: () => 1 })
        .andMap({ id: "m", map: { a: { source: "step", stepId: "list" } } });
    expect(inner).toThrow(refusal("list"));
  });
});
