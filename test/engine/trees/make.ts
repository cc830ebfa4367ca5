import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import { andAll, andRace, andTap, andThen, andWhen, andWorkflow, defineWorkflow, type StepContext } from "agentserve";
import fc from "fast-check";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import type { StepIn } from "../../../src/workflows/steps/step.ts";

/** A step of a tree, as data. `wait`: 0 returns at once, up to 5 are turns of the event loop, above are milliseconds. */
type Node = { id: string } & (
  | { type: "andThen"; how: How; wait: number }
  | { type: "andTap"; fails: boolean; wait: number }
  | { type: "andWhen"; holds: boolean | "throws"; wait: number; step: Node }
  | { type: "andAll" | "andRace"; steps: Node[] }
  | { type: "andWorkflow"; maps: boolean; steps: Node[] }
);
type How = "value" | "nothing" | "flaky" | "asks" | "asks, then flaky" | "broken" | "broken twice" | "hangs";
export type Tree = Node[];

type Context = StepContext<any, any, any, any>;
type AnyStep = StepIn<any, any, any, any>;

/** What the code of the steps tells the test. */
export interface Notes {
  called(executionId: string, idempotencyKey: string): void;
  wrong(message: string): void;
}

const id = ""; // given by `named`
const wait = fc.nat(9);
const how = fc.oneof(
  { weight: 10, arbitrary: fc.constant<How>("value") },
  { weight: 1, arbitrary: fc.constant<How>("nothing") },
  { weight: 2, arbitrary: fc.constant<How>("flaky") },
  { weight: 3, arbitrary: fc.constantFrom<How>("asks", "asks, then flaky") },
  { weight: 1, arbitrary: fc.constantFrom<How>("broken", "broken twice", "hangs") },
);
const leaf = fc.oneof(
  { weight: 6, arbitrary: fc.record({ id: fc.constant(id), type: fc.constant("andThen" as const), how, wait }) },
  {
    weight: 1,
    arbitrary: fc.record({ id: fc.constant(id), type: fc.constant("andTap" as const), fails: fc.boolean(), wait }),
  },
);
const holds = fc.constantFrom<boolean | "throws">(true, true, true, true, false, false, false, "throws");

function node(depth: number): fc.Arbitrary<Node> {
  if (depth === 0) return leaf;
  const inner = node(depth - 1);
  const steps = fc.array(inner, { maxLength: 3, size: "max" });
  const some = fc.array(inner, { minLength: 1, maxLength: 3, size: "max" });
  return fc.oneof(
    { weight: 4, arbitrary: leaf },
    {
      weight: 1,
      arbitrary: fc.record({
        id: fc.constant(id),
        type: fc.constant("andWhen" as const),
        holds,
        wait,
        step: inner,
      }),
    },
    { weight: 2, arbitrary: fc.record({ id: fc.constant(id), type: fc.constant("andAll" as const), steps }) },
    {
      weight: 2,
      arbitrary: fc.record({ id: fc.constant(id), type: fc.constant("andRace" as const), steps: some }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        id: fc.constant(id),
        type: fc.constant("andWorkflow" as const),
        maps: fc.boolean(),
        steps: some,
      }),
    },
  );
}

export const tree: fc.Arbitrary<Tree> = fc
  .array(node(3), { minLength: 2, maxLength: 5, size: "max" })
  .map((nodes) => named(nodes));

/** Ids that are unique where they must be: a sub-workflow uses those of the workflow around it again. */
function named(nodes: Node[], counter = { next: 0 }): Node[] {
  return nodes.map((one): Node => {
    const own = { id: `n${counter.next++}` };
    if (one.type === "andWorkflow") return { ...one, ...own, steps: named(one.steps) };
    if (one.type === "andWhen") return { ...one, ...own, step: named([one.step], counter)[0]! };
    if ("steps" in one) return { ...one, ...own, steps: named(one.steps, counter) };
    return { ...one, ...own };
  });
}

/** One node in a line, so that a failure can be read. */
export function print(nodes: Tree, indent = ""): string {
  return nodes
    .map(({ ...one }) => {
      const inner = "steps" in one ? one.steps : "step" in one ? [one.step] : [];
      const own = Object.entries(one).filter(([key]) => !["id", "type", "step", "steps"].includes(key));
      const line = `${indent}${one.id} ${one.type} ${own.map(([key, value]) => `${key}=${value}`).join(" ")}`;
      return [line.trimEnd(), ...(inner.length > 0 ? [print(inner, `${indent}  `)] : [])].join("\n");
    })
    .join("\n");
}

export async function pause(length: number, signal?: AbortSignal): Promise<void> {
  if (length > 5) await sleep(length - 5, undefined, signal && { signal });
  else for (let turns = 0; turns < length; turns++) await turn();
}

const retries = /flaky|twice/;

/** The only data that a step is ever resumed with. */
export const answerOf = (path: string): string => `answer for ${path}`;

export function toWorkflow(workflowId: string, nodes: Tree, notes: Notes, prefix = ""): WorkflowDefinition {
  let chain: any = defineWorkflow({ id: workflowId });
  let before: string | undefined;
  for (const one of nodes) {
    // The method adds a step that the function of the same name makes; its options are the step itself.
    chain = chain[one.type](toStep(one, notes, prefix, before));
    before = one.id;
  }
  return chain;
}

function toStep(one: Node, notes: Notes, prefix: string, before: string | undefined): AnyStep {
  const path = prefix + one.id;
  const inner = (nested: Node): AnyStep => toStep(nested, notes, prefix, before);
  /** What code sees, told once, and then spoilt: nobody else may be given the same objects. */
  const look = (context: Context, suffix = ""): { data: string | undefined; input: string | undefined } => {
    const { executionId, stepId, idempotencyKey, getStepData, resumeData, attempt } = context;
    notes.called(executionId, idempotencyKey);
    const wrong = (what: string) => notes.wrong(`${path}${suffix}: ${what}`);
    const attempts = one.type === "andThen" && retries.test(one.how) ? 2 : 1;
    if (attempt > attempts) wrong(`attempt ${attempt} of ${attempts}`);
    if (stepId !== path) wrong(`stepId is ${stepId}`);
    if (idempotencyKey.replace(/@\d+$/, "") !== `${executionId}/${path}${suffix}`)
      wrong(`idempotencyKey is ${idempotencyKey}`);
    if (resumeData !== undefined && (suffix || resumeData !== answerOf(path))) wrong(`resumeData is ${resumeData}`);
    const seen = { data: JSON.stringify(context.data), input: JSON.stringify(context.input) };
    if (before !== undefined) {
      const output = getStepData(before);
      if (JSON.stringify(output) !== seen.data) wrong(`getStepData(${before}) is not its data`);
      spoil(output);
    }
    if (prefix === "" && getStepData(one.id) !== undefined) wrong("its own output is there before it is made");
    spoil(context.data);
    spoil(context.input);
    return seen;
  };
  switch (one.type) {
    case "andThen":
      return andThen<any, any, any, any, unknown>({
        id: one.id,
        ...(retries.test(one.how) && { retry: { attempts: 2, delay: one.wait % 3, backoff: 2 } }),
        ...(one.how === "hangs" && { timeout: 3 }),
        execute(context) {
          const { data, input } = look(context);
          const act = (): unknown => {
            if (one.how === "flaky" && context.attempt === 1) throw new Error(`flaky ${path}`);
            if (one.how.startsWith("asks") && context.resumeData === undefined)
              return context.suspend(`ask ${path}`, { ask: path });
            if (one.how === "asks, then flaky" && context.attempt === 1) throw new Error(`flaky ${path}`);
            if (one.how.startsWith("broken")) throw new Error(`broken ${path}`);
            if (one.how === "hangs") return new Promise(() => {});
            return one.how === "nothing" ? undefined : made(path, data, input);
          };
          return one.wait === 0 ? act() : pause(one.wait, one.wait % 2 ? context.signal : undefined).then(act);
        },
      });
    case "andTap":
      return andTap<any, any, any, any>({
        id: one.id,
        async execute(context) {
          look(context as Context);
          await pause(one.wait);
          if (one.fails) throw new Error(`tap ${path}`);
          return "ignored";
        },
      });
    case "andWhen":
      return andWhen<any, any, any, any, any>({
        id: one.id,
        step: inner(one.step),
        async condition(context) {
          look(context as Context, "?");
          await pause(one.wait);
          if (one.holds === "throws") throw new Error(`condition ${path}`);
          return one.holds;
        },
      });
    case "andAll":
      return andAll<any, any, any, any, AnyStep[]>({ id: one.id, steps: one.steps.map(inner) });
    case "andRace":
      return andRace<any, any, any, any, AnyStep[]>({ id: one.id, steps: one.steps.map(inner) });
    case "andWorkflow":
      return andWorkflow<any, any, any, any, any, any>({
        id: one.id,
        workflow: toWorkflow(`sub-${one.id}`, one.steps, notes, `${path}/`),
        ...(one.maps && {
          map(result: unknown, context: Omit<Context, "suspend">) {
            look(context as Context, ">");
            return { mapped: path, of: hash(JSON.stringify(result)) };
          },
        }),
      });
  }
}

function spoil(value: unknown): void {
  if (Array.isArray(value)) value.push("spoilt");
  else if (typeof value === "object" && value !== null) Object.assign(value, { spoilt: true });
}

const made = (path: string, data: string | undefined, input: string | undefined): object => ({
  path,
  of: hash(data),
  in: hash(input),
});

function hash(text = "undefined"): string {
  let sum = 0x811c9dc5;
  for (const character of text) sum = Math.imul(sum ^ character.charCodeAt(0), 0x01000193) >>> 0;
  return sum.toString(36);
}

/** How a run may end: its results as JSON, and the messages of its errors. Only a race, or two failures at once, leave a choice. */
export interface Outcomes {
  readonly values: ReadonlySet<string | undefined>;
  readonly errors: ReadonlySet<string>;
}
const most = 200;

/** The same tree, worked out without an engine. Undefined when there are too many ways. */
export function outcomesOf(nodes: Tree, input: string): Outcomes | undefined {
  try {
    return ofSequence(nodes, "", input);
  } catch (error) {
    if (error === tooMany) return undefined;
    throw error;
  }
}
const tooMany = new Error("too many outcomes");

function ofSequence(nodes: Tree, prefix: string, input: string | undefined): Outcomes {
  let values: ReadonlySet<string | undefined> = new Set([input]);
  const errors = new Set<string>();
  for (const one of nodes) {
    const all = [...values].map((data) => ofNode(one, prefix, data, input));
    values = union(all.map((each) => each.values));
    for (const each of all) for (const error of each.errors) errors.add(error);
  }
  return { values, errors };
}

function ofNode(one: Node, prefix: string, data: string | undefined, input: string | undefined): Outcomes {
  const path = prefix + one.id;
  const value = (text: string | undefined): Outcomes => ({ values: new Set([text]), errors: new Set() });
  const error = (text: string): Outcomes => ({ values: new Set(), errors: new Set([text]) });
  switch (one.type) {
    case "andTap":
      return value(data);
    case "andThen":
      if (one.how.startsWith("broken")) return error(`broken ${path}`);
      if (one.how === "hangs") return error(`Step ${path} timed out after 3 ms`);
      return value(one.how === "nothing" ? undefined : JSON.stringify(made(path, data, input)));
    case "andWhen":
      if (one.holds === "throws") return error(`condition ${path}`);
      return one.holds ? ofNode(one.step, prefix, data, input) : value(data);
    case "andWorkflow": {
      const { values, errors } = ofSequence(one.steps, `${path}/`, data);
      if (!one.maps) return { values, errors };
      return { errors, values: new Set([...values].map((of) => JSON.stringify({ mapped: path, of: hash(of) }))) };
    }
    case "andRace": {
      const branches = one.steps.map((step) => ofNode(step, prefix, data, input));
      const canFail = branches.every(({ errors }) => errors.size > 0);
      return {
        values: union(branches.map(({ values }) => values)),
        errors: canFail ? union(branches.map(({ errors }) => errors)) : new Set(),
      };
    }
    case "andAll": {
      const branches = one.steps.map((step) => ofNode(step, prefix, data, input));
      let lists: string[][] = [[]];
      for (const { values } of branches) {
        lists = lists.flatMap((list) => [...values].map((text) => [...list, text ?? "null"]));
        if (lists.length > most) throw tooMany;
      }
      return {
        values: new Set(lists.map((list) => `[${list.join()}]`)),
        errors: union(branches.map(({ errors }) => errors)),
      };
    }
  }
}

function union<T>(sets: ReadonlySet<T>[]): Set<T> {
  const all = new Set(sets.flatMap((set) => [...set]));
  if (all.size > most) throw tooMany;
  return all;
}
