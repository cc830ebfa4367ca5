import { setTimeout as sleep } from "node:timers/promises";
import * as v from "valibot";
import {
  andAll,
  andRace,
  andSleep,
  andTap,
  andThen,
  andWaitFor,
  andWhen,
  andWorkflow,
  defineWorkflow,
  ServeError,
} from "../../../src/index.ts";
import type { StepContext } from "../../../src/index.ts";
import { raise } from "./child.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition/definition.ts";

/** What steps hand on: a number that each changes in its own way, and the names of the steps that made it. */
export interface Data {
  n: number;
  trail: string[];
}
/** How an execution is to behave. It stands in the context of the execution, where every step finds it. */
export interface Settings {
  /** Milliseconds that a step takes; 0 ends in the turn in which it began. */
  pace: number;
  /** The same of the steps of children. @default `pace` */
  childPace?: number;
  /** The path of one step that takes longer. */
  slow: string;
  slowMs: number;
  /** How many attempts of a flaky step fail. */
  fails: number;
  /** How often a step that was resumed asks again. */
  again: number;
  /** Whether the weak steps fail until the client has mended the execution. */
  broken: boolean;
  /** How long `reply` waits for an answer. */
  deadlineMs: number;
}
/** What a suspended step is resumed with. The token says for which of its suspensions: `2a` is for the second. */
export interface Answer {
  token: string;
  amount: number;
}
/** What a resume with this token adds. */
export const answer = (token: string): Answer => ({
  token,
  amount: 1_000 * roundOf(token) + token.charCodeAt(token.length - 1),
});
/** The token of a suspension whose deadline has passed. */
export const late = "1late";
export const roundOf = (token: string): number => (token === "-" ? 0 : Number.parseInt(token, 10));

/** The data of an event that `post` waits for. */
interface Letter {
  mark: string;
  amount: number;
}
export const letterName = "letter";
/** The letters that each execution of `post` waits for, in order. */
export const letters: readonly [Letter, Letter] = [
  { mark: "first", amount: 50 },
  { mark: "second", amount: 70 },
];

type Context = StepContext<any, any, any, any>;
type Make = (context: Context, settings: Settings, round: number) => unknown;

const Passed = v.object({ n: v.number(), trail: v.array(v.string()) });

/**
 * Every step says in the log when it begins and how it ends, whatever the journal knows of it. `isMended`: the weak steps of
 * this execution do not fail any more.
 */
export function createWorkflows(
  write: (line: string) => void,
  isMended: (executionId: string) => boolean = () => true,
): WorkflowDefinition[] {
  const logged = (make: Make) => async (context: Context) => {
    const { executionId, idempotencyKey, attempt, data, resumeData } = context;
    const settings = context.context.get("settings") as Settings; // as the parent sent it
    const token = context.timedOut ? late : ((resumeData as Answer | undefined)?.token ?? "-");
    const entry = `${executionId} ${idempotencyKey} ${attempt} ${token}`;
    write(`begin ${entry} ${JSON.stringify(data)}`);
    const path = idempotencyKey.slice(executionId.length + 1);
    const ms = path === settings.slow ? settings.slowMs : settings.pace;
    if (ms > 0) await sleep(ms);
    try {
      const making = make(context, settings, roundOf(token));
      const made = making instanceof Promise ? await making : making; // others end in this turn
      const how = made instanceof Question ? "suspended" : "value";
      write(`end ${entry} ${how}`);
      return made instanceof Question ? await context.suspend(made.reason, made.data, made.options) : made;
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

  const chain = (id: string, ...steps: ({ type: string } & Record<string, any>)[]): WorkflowDefinition => {
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
  const letter = (id: string) => ({
    type: "andWaitFor",
    id,
    event: letterName,
    key: logged(({ executionId }) => executionId),
  });
  const weary: Make = ({ data, stepId, attempt }, { fails }) => {
    if (attempt <= Math.min(fails, 1)) throw new Error("a step that fails once");
    return pass(data, data.n + 7, stepId);
  };
  const take = then("take", ({ data, stepId }) => {
    const [{ mark, amount }, , passed] = data as [Letter, Data, Data];
    return pass(passed, passed.n + amount, `${stepId}:${mark}`);
  });
  const sum = then("sum", ({ data, stepId, getStepData }) => {
    const taken = getStepData("take") as Data;
    return pass(taken, taken.n + data.amount, `${stepId}:${data.mark}`);
  });
  const reply = then("reply", ({ data, stepId, resumeData, timedOut }, { deadlineMs }, round) => {
    if (round === 0) return new Question(`${stepId} 0`, { n: data.n, round }, { timeout: deadlineMs });
    const { token, amount } = timedOut ? answer(late) : resumeData;
    return pass(data, data.n + amount, `${stepId}:${token}`);
  });
  const note = tap("note", ({ data }) => {
    if (data.n % 3 === 0) throw new Error("a tap that fails");
  });
  const shaky: Make = ({ data, stepId, attempt }, { fails }) => {
    if (attempt <= fails) throw new ServeError(500, `${stepId} gave up`);
    return pass(data, data.n + 4, stepId);
  };
  const weak: Make = ({ data, stepId, executionId }, { broken }) => {
    if (broken && !isMended(executionId)) throw new ServeError(500, `${stepId} is broken`);
    return pass(data, data.n + 6, stepId);
  };
  const kid = chain(
    "kid",
    first,
    add("x", 5),
    tap("t", () => undefined),
    times("y", 3),
    add("z", 1),
  );
  const kids: Make = async (context, settings) => {
    const raised = await raise(context, { kid, settings, write });
    if (settings.broken && !isMended(context.executionId)) throw new ServeError(500, "kids is broken");
    return raised;
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
    chain(
      "tour",
      first,
      {
        type: "andForEach",
        id: "each",
        concurrency: 2,
        items: logged(({ data }) => [1, 2, 3].map((more) => pass(data, data.n + more, `i${more}`))),
        step: add("e", 2),
      },
      join("join"),
      { type: "andSleep", id: "nap", duration: logged(() => waitMs) },
      // Nobody sends it. The execution stays running: both waits are short.
      {
        type: "andWaitFor",
        id: "call",
        event: "a-call",
        timeout: waitMs,
        key: logged(({ executionId }) => executionId),
      },
      then("c", ({ getStepData, stepId }) => {
        const joined = getStepData("join") as Data;
        return pass(joined, joined.n + 3, stepId);
      }),
    ),
    chain(
      "maze",
      first,
      {
        type: "andDoWhile",
        id: "lap",
        step: add("run", 1),
        condition: logged(({ data, getStepData }) => data.n < (getStepData("a") as Data).n + 2),
      },
      { type: "andDoUntil", id: "poll", step: add("look", 5), condition: logged(() => true) },
      {
        type: "andBranch",
        id: "ways",
        branches: [
          { condition: logged(({ data }) => isEven(data)), step: times("double", 2) },
          { condition: logged(() => true), step: add("plain", 4) },
        ],
      },
      then("meet", ({ data, stepId }) => {
        const parts = (data as (Data | null)[]).filter((part) => part !== null);
        const all = parts.reduce((total, { n }) => total + n, 0);
        return pass({ trail: parts.flatMap(({ trail }) => trail) }, all, stepId);
      }),
      { type: "andSleepUntil", id: "dawn", date: logged(() => new Date(Date.now() + waitMs)) },
      {
        type: "andMap",
        id: "shape",
        map: {
          n: { source: "fn", fn: logged(({ data }) => data.n + 1) },
          trail: { source: "data", path: "trail" },
        },
      },
      add("c", 3),
    ),
    chain(
      "post",
      first,
      { type: "andSleep", id: "night", duration: logged(() => sleepMs) },
      andAll({
        id: "both",
        steps: [
          andWaitFor(letter("letter") as never),
          andSleep({ id: "dusk", duration: logged(() => sleepMs) as never }),
          then("weary", weary, { retry: { attempts: 2, delay: restMs } }),
        ] as never,
      }),
      take,
      letter("second"), // the same event and key: another letter
      sum,
      reply,
      add("c", 3),
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
    chain("long", first, add("b", 2), then("weak", weak), add("c", 3), add("d", 4)), // of `retries.test`
    chain("mend", first, asks("ask"), then("weak", weak, { retry: { attempts: 2, delay: 4 } }), add("c", 3)),
    chain(
      "crew",
      first,
      andAll({
        id: "team",
        steps: [
          add("l", 2),
          then("weak", weak),
          add("m", 9),
          andRace({ id: "duel", steps: [then("d1", weak), then("d2", weak)] as never }),
        ] as never,
      }),
      join("join"),
      add("z", 1),
    ),
    kid,
    chain("family", first, then("kids", kids), add("c", 3)),
  ];
}

/** The sleeps of `tour` and `maze`, and the time that `tour` waits for an event. */
const waitMs = 25;
/** Longer than `inlineSleepMs` of the host: a sleep that suspends. */
export const sleepMs = 120;
/** A retry delay. The file knows that the execution rests: 250 ms are left of it when `dusk` has ended. */
const restMs = 430;

/** A step that returns one suspends instead. */
class Question {
  readonly reason: string;
  readonly data: unknown;
  readonly options: { timeout: number } | undefined;

  constructor(reason: string, data: unknown, options?: { timeout: number }) {
    this.reason = reason;
    this.data = data;
    this.options = options;
  }
}

const isEven = ({ n }: Data): boolean => n % 2 === 0;
const pass = ({ trail }: { trail: string[] }, n: number, name: string): Data => ({ n, trail: [...trail, name] });
