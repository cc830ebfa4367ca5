import { setImmediate as turn, setTimeout as sleep } from "node:timers/promises";
import * as agentserve from "agentserve";
import { defineWorkflow, type StepContext } from "agentserve";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";
import type { StepIn } from "../../../src/workflows/steps/step.ts";
import type { Node, Tree } from "./make.ts";
import { answerOf, deadlineMs, eventName, hash, itemsOf, keyOf, made, mappedOf } from "./values.ts";

type Context = StepContext<any, any, any, any>;
type AnyStep = StepIn<any, any, any, any>;

/** What the code of the steps tells the test. */
export interface Notes {
  called(executionId: string, idempotencyKey: string): void;
  wrong(message: string): void;
  /** Steps that fail until they are mended succeed from now on. */
  isMended(executionId: string): boolean;
  /** The wall clock. */
  now(): number;
}

export async function pause(length: number, signal?: AbortSignal): Promise<void> {
  if (length > 5) await sleep(length - 5, undefined, signal && { signal });
  else for (let turns = 0; turns < length; turns++) await turn();
}

const retries = /flaky|twice/;

/** The place of a step in the tree. */
interface Place {
  /** A pattern of its path, in which iterations have any number; with the `/` at its end. */
  readonly prefix: string;
  /** The step whose output is the data; undefined where it is not that of a step. */
  readonly before: string | undefined;
  /** Whether ids are unique: not in a sub-workflow. */
  readonly isUnique: boolean;
}
const top: Place = { prefix: "", before: undefined, isUnique: true };

export function toWorkflow(workflowId: string, nodes: Tree, notes: Notes, place: Place = top): WorkflowDefinition {
  let chain: any = defineWorkflow({ id: workflowId });
  for (const [index, one] of nodes.entries())
    chain = chain[one.type](toOptions(one, notes, { ...place, before: nodes[index - 1]?.id }));
  return chain;
}

function toStep(one: Node, notes: Notes, place: Place): AnyStep {
  // oxlint-disable-next-line import/namespace -- every type of a node is the name of a step
  const create = agentserve[one.type] as (options: object) => AnyStep; // the options are made for it
  return create(toOptions(one, notes, place));
}

function toOptions(one: Node, notes: Notes, { prefix, before, isUnique }: Place): object {
  const { id } = one;
  const path = prefix + id;
  const inner = (nested: Node): AnyStep => toStep(nested, notes, { prefix, before, isUnique });
  /** The steps of an iteration: the data of the first is not the output of a step. */
  const iterated = (nodes: Node[]): AnyStep[] =>
    nodes.map((nested, index) => {
      return toStep(nested, notes, { prefix: `${path}/\\d+/`, before: nodes[index - 1]?.id, isUnique });
    });
  /** What code sees, told once, and then spoilt: nobody else may be given the same objects. */
  const look = (context: Context, suffix = "", isIteration = false): Seen => {
    const { executionId, stepId, idempotencyKey, getStepData, resumeData, attempt, timedOut } = context;
    notes.called(executionId, idempotencyKey);
    const wrong = (what: string): void => notes.wrong(`${stepId}${suffix}: ${what}`);
    const attempts = one.type === "andThen" && retries.test(one.how) ? 2 : 1;
    if (attempt > attempts) wrong(`attempt ${attempt} of ${attempts}`);
    if (!new RegExp(`^${path}${isIteration ? "/\\d+" : ""}$`).test(stepId)) wrong(`stepId of ${path} is ${stepId}`);
    if (idempotencyKey.replace(/@\d+$/, "") !== `${executionId}/${stepId}${suffix}`)
      wrong(`idempotencyKey is ${idempotencyKey}`);
    if (resumeData !== undefined && (suffix || resumeData !== answerOf(stepId))) wrong(`resumeData is ${resumeData}`);
    if (timedOut && (suffix || !(one.type === "andThen" && one.how === "asks in time"))) wrong("it has timed out");
    const seen = { path: stepId, data: JSON.stringify(context.data), input: JSON.stringify(context.input) };
    // The condition of a loop gets the output of an iteration.
    if (before !== undefined && !(isIteration && suffix === "?")) {
      const output = getStepData(before);
      const text = JSON.stringify(output);
      if (text !== seen.data) wrong(`getStepData(${before}) is ${text}, its data is ${seen.data}`);
      spoil(output);
    }
    if (isUnique && getStepData(id) !== undefined) wrong("its own output is there before it is made");
    spoil(context.data);
    spoil(context.input);
    return seen;
  };
  switch (one.type) {
    case "andThen":
      return {
        id,
        ...(retries.test(one.how) && {
          retry: one.how.endsWith("slow to return")
            ? { attempts: 2, delay: 8_000, jitter: 0.5 }
            : { attempts: 2, delay: one.wait % 3, backoff: 2, maxDelay: 5, jitter: 0.5 },
        }),
        ...(one.how === "hangs" && { timeout: 3 }),
        execute(context: Context) {
          const { path: stepId, data, input } = look(context);
          const { attempt, resumeData, timedOut, executionId, suspend } = context;
          const act = (): unknown => {
            if (one.how.startsWith("flaky") && attempt === 1) throw new Error(`flaky ${stepId}`);
            if (timedOut) return { ...made(stepId, data, input), late: true };
            if (one.how.startsWith("asks") && resumeData === undefined)
              return one.how === "asks in time"
                ? suspend(`ask ${stepId}`, { ask: stepId }, { timeout: deadlineMs })
                : suspend(`ask ${stepId}`, { ask: stepId });
            if (one.how === "asks, then flaky" && attempt === 1) throw new Error(`flaky ${stepId}`);
            if (one.how.startsWith("broken") || (one.how === "mends" && !notes.isMended(executionId)))
              throw new Error(`broken ${stepId}`);
            if (one.how === "hangs") return new Promise(() => {});
            return one.how === "nothing" ? undefined : made(stepId, data, input);
          };
          return one.wait === 0 ? act() : pause(one.wait, one.wait % 2 ? context.signal : undefined).then(act);
        },
      };
    case "andTap":
      return {
        id,
        async execute(context: Context) {
          const { path: stepId } = look(context);
          await pause(one.wait);
          if (one.fails) throw new Error(`tap ${stepId}`);
          return "ignored";
        },
      };
    case "andWhen":
      return {
        id,
        step: inner(one.step),
        async condition(context: Context) {
          const { path: stepId } = look(context, "?");
          await pause(one.wait);
          if (one.holds === "throws") throw new Error(`condition ${stepId}`);
          return one.holds;
        },
      };
    case "andAll":
    case "andRace":
      return { id, steps: one.steps.map(inner) };
    case "andWorkflow":
      return {
        id,
        workflow: toWorkflow(`sub-${id}`, one.steps, notes, { ...top, prefix: `${path}/`, isUnique: false }),
        ...(one.maps && {
          map(result: unknown, context: Context) {
            const { path: stepId } = look(context, ">");
            return { mapped: stepId, of: hash(JSON.stringify(result)) };
          },
        }),
      };
    case "andForEach":
      return {
        id,
        concurrency: one.concurrency,
        onError: one.onError,
        steps: iterated(one.steps),
        ...(one.items !== "data" && {
          async items(context: Context) {
            const { data } = look(context, "?");
            await pause(one.wait);
            return itemsOf(one.items as number, data);
          },
        }),
        ...(one.maps && {
          async map(context: Context, item: unknown, index: number) {
            const { data } = look(context, "<", true);
            const text = JSON.stringify(item);
            spoil(item);
            await pause(one.wait);
            return mappedOf(text, index, data);
          },
        }),
      };
    case "andDoWhile":
    case "andDoUntil":
      return {
        id,
        steps: iterated(one.steps),
        ...(one.overflows && { maxIterations: one.times }),
        async condition(context: Context) {
          const { path: stepId } = look(context, "?", true);
          await pause(one.wait);
          const isLast = !one.overflows && Number(stepId.split("/").at(-1)) + 1 >= one.times;
          return isLast === (one.type === "andDoUntil");
        },
      };
    case "andBranch":
      return {
        id,
        branches: one.steps.map((step, index) => ({
          step: inner(step),
          async condition(context: Context) {
            const { path: stepId } = look(context, `?${index}`);
            await pause(index % 2 ? one.wait : 0);
            if (one.holds[index] === "throws") throw new Error(`condition ${index} of ${stepId}`);
            return one.holds[index];
          },
        })),
      };
    case "andMap":
      return {
        id,
        map: {
          value: { source: "value", value: { is: 7 } },
          question: { source: "input", path: "question" },
          first: { source: "data", path: "0" },
          none: { source: "data", path: "__proto__.toString" },
          ...(before !== undefined && { before: { source: "step", stepId: before } }),
          context: { source: "context", key: "no such key" },
          fn: { source: "fn", fn: (context: Context) => hash(look(context).data) },
        },
      };
    case "andSleep":
      return { id, skippable: one.skippable, duration: (context: Context) => (look(context, "?"), one.ms) };
    case "andSleepUntil":
      return {
        id,
        skippable: one.skippable,
        date(context: Context) {
          look(context, "?");
          const date = new Date(notes.now() + one.ms);
          return one.skippable ? date : date.toISOString();
        },
      };
    case "andWaitFor":
      return {
        id,
        event: eventName,
        skippable: one.skippable,
        ...(one.timeout !== undefined && { timeout: one.timeout }),
        ...(one.checks && { schema: eventSchema }),
        key: (context: Context) => keyOf(one, look(context, "?").path),
      };
  }
}
interface Seen {
  readonly path: string;
  readonly data: string | undefined;
  readonly input: string | undefined;
}

const eventSchema = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value: unknown) =>
      typeof value === "object" && value !== null && "event" in value
        ? { value }
        : { issues: [{ message: "expected the data of an event" }] },
  },
};

function spoil(value: unknown): void {
  if (Array.isArray(value)) value.push("spoilt");
  else if (typeof value === "object" && value !== null) Object.assign(value, { spoilt: true });
}
