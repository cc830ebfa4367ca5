import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import {
  andAll,
  andRace,
  andTap,
  andThen,
  andWhen,
  andWorkflow,
  defineWorkflow,
  ServeError,
} from "../../../src/index.ts";
import type { StepContext } from "../../../src/index.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";

/** What steps hand on: a number that each changes in its own way, and the names of the steps that made it. */
export interface Data {
  n: number;
  trail: string[];
}
/** How an execution is to behave. It stands in the context of the execution, where every step finds it. */
export interface Settings {
  /** Milliseconds that a step takes; 0 ends in the turn in which it began. */
  pace: number;
  /** The path of one step that takes longer. */
  slow: string;
  slowMs: number;
  /** How many attempts of a flaky step fail. */
  fails: number;
  /** How often a step that was resumed asks again. */
  again: number;
}
/** What a suspended step is resumed with. The token says for which of its suspensions: `2a` is for the second. */
export interface Answer {
  token: string;
  amount: number;
}
export const roundOf = (token: string): number => (token === "-" ? 0 : Number.parseInt(token, 10));

type Context = StepContext<any, any, any, any>;
type Make = (context: Context, settings: Settings, round: number) => unknown;

const Passed = v.object({ n: v.number(), trail: v.array(v.string()) });

/** Every step says in the log when it begins and how it ends, whatever the journal knows of it. */
export function createWorkflows(write: (line: string) => void): WorkflowDefinition[] {
  const logged = (make: Make) => async (context: Context) => {
    const { executionId, idempotencyKey, attempt, data, resumeData } = context;
    const settings = context.context.get("settings") as Settings; // as the parent sent it
    const token = (resumeData as Answer | undefined)?.token ?? "-";
    const entry = `${executionId} ${idempotencyKey} ${attempt} ${token}`;
    write(`begin ${entry} ${JSON.stringify(data)}`);
    const path = idempotencyKey.slice(executionId.length + 1);
    const ms = path === settings.slow ? settings.slowMs : settings.pace;
    if (ms > 0) await sleep(ms);
    try {
      const made = make(context, settings, roundOf(token));
      const how = made instanceof Question ? "suspended" : "value";
      write(`end ${entry} ${how}`);
      return made instanceof Question ? await context.suspend(made.reason, made.data) : made;
    } catch (error) {
      write(`end ${entry} error`);
      throw error;
    }
  };
  const then = (id: string, make: Make, more: { retry?: { attempts: number; delay: number } } = {}) =>
    andThen<any, any, any, any, Promise<any>>({ id, execute: logged(make), ...more });
  const tap = (id: string, make: Make) => andTap<any, any, any, any>({ id, execute: logged(make) as never });
  const when = (id: string, condition: (data: Data) => boolean, step: ReturnType<typeof then>) =>
    andWhen<any, any, any, any, any>({ id, step, condition: logged(({ data }) => condition(data)) as never });
  const add = (id: string, more: number) => then(id, ({ data, stepId }) => pass(data, data.n + more, stepId));
  const times = (id: string, factor: number) => then(id, ({ data, stepId }) => pass(data, data.n * factor, stepId));
  const asks = (id: string) =>
    then(id, ({ data, stepId, resumeData }, { again }, round) => {
      if (round <= again) return new Question(`${stepId} ${round}`, { n: data.n, round });
      return pass(data, data.n + resumeData.amount, `${stepId}:${resumeData.token}`);
    });
  const first = then("a", ({ data, stepId }) => pass({ trail: [] }, data.n + 1, stepId));
  const join = (id: string) =>
    then(id, ({ data, stepId }) => {
      const parts = data as Data[];
      const sum = parts.reduce((total, { n }) => total + n, 0);
      return pass({ trail: parts.flatMap(({ trail }) => trail) }, sum, stepId);
    });

  const chain = (id: string, ...steps: { type: string }[]): WorkflowDefinition => {
    let made: any = id === "inner" ? defineWorkflow({ id, input: Passed }) : defineWorkflow({ id });
    // The method adds a step that the function of the same name makes; its options are the step itself.
    for (const step of steps) made = made[step.type](step);
    return made;
  };
  const inner = chain(
    "inner",
    add("x", 5),
    tap("t", () => undefined),
    times("y", 3),
  );
  const asking = chain("asking", add("p", 2), asks("ask"));
  const note = tap("note", ({ data }) => {
    if (data.n % 3 === 0) throw new Error("a tap that fails");
  });
  const shaky: Make = ({ data, stepId, attempt }, { fails }) => {
    if (attempt <= fails) throw new ServeError(500, `${stepId} gave up`);
    return pass(data, data.n + 4, stepId);
  };
  const map = (result: unknown, context: object) => logged(() => result)(context as Context);
  const broken = then("broken", () => {
    throw new Error("a branch that fails");
  });

  return [
    chain("line", first, note, add("b", 2), when("big", isEven, add("bigger", 100)), add("c", 3)),
    chain("flaky", first, then("shaky", shaky, { retry: { attempts: 3, delay: 4 } }), add("c", 3)),
    chain(
      "fork",
      first,
      andAll({
        id: "all",
        steps: [
          add("l", 2),
          when("w", isEven, times("ws", 2)),
          andWorkflow({ id: "sub", workflow: inner as never, map }),
          andRace({ id: "r", steps: [add("r1", 7), add("r2", 8)] as never }),
        ] as never,
      }),
      join("join"),
      andRace({ id: "race", steps: [broken, add("fast", 10), add("late", 20)] as never }),
      add("z", 1),
    ),
    chain("ask", first, asks("ask"), add("c", 3)),
    chain(
      "panel",
      first,
      andAll({
        id: "both",
        steps: [asks("left"), add("busy", 9), andWorkflow({ id: "deep", workflow: asking as never })] as never,
      }),
      join("join"),
    ),
  ];
}

/** A step that returns one suspends instead. */
class Question {
  readonly reason: string;
  readonly data: unknown;

  constructor(reason: string, data: unknown) {
    this.reason = reason;
    this.data = data;
  }
}

const isEven = ({ n }: Data): boolean => n % 2 === 0;
const pass = ({ trail }: { trail: string[] }, n: number, name: string): Data => ({ n, trail: [...trail, name] });
