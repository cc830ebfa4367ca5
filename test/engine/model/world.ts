// oxlint-disable vitest/no-standalone-expect -- the commands of the model are run inside a test
import { rmSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import * as v from "valibot";
import { expect } from "vitest";
import { andSleep, andThen, andWaitFor, defineWorkflow, ServeError, type StepContext } from "agentserve";
import { createClock, type TestClock } from "agentserve/testing";
import { toProject } from "../../../src/config/load.ts";
import { openServer, type OpenServer } from "../../../src/server/create.ts";
import { createClient, type Answer, type Client, type Init } from "../../harness/client.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { openPlace } from "../../harness/places.ts";
import { createTestLogger, type LogRecord } from "../../harness/server.ts";
import type { Backend } from "../../../src/engine/backend.ts";
import { patienceMs } from "../../harness/patience.ts";
import { until, within } from "../../harness/waiting.ts";
import {
  deadlineMs,
  errorOf,
  eventName,
  hiddenError,
  tickMs,
  inFlight,
  isEnded,
  shapeOf,
  time,
  toStory,
  toValue,
  type Action,
  type Model,
} from "./oracle.ts";

/** One real run of a step's code; it waits until the test says how it ends. */
export interface RealRun {
  readonly executionId: string;
  readonly step: string;
  readonly attempt: number;
  readonly idempotencyKey: string;
  readonly data: unknown;
  readonly input: unknown;
  readonly resumeData: unknown;
  readonly timedOut: boolean;
  readonly context: Record<string, unknown>;
  readonly stepData: (id: string) => unknown;
  readonly signal: AbortSignal;
  readonly act: (action: Action) => void;
  acted: boolean;
}

/** A call that the next suspension or end answers. */
interface Waiting {
  readonly id: string;
  readonly kind: "call" | "stream";
  readonly after: number;
  readonly answered: Promise<void>;
  answer?: Answer;
  error?: unknown;
}

let world: World;

const code = (context: StepContext<any, any, any, any>): Promise<unknown> => world.enter(context);
const Ok = v.object({ ok: v.boolean() });
const mail = {
  id: "mail",
  event: eventName,
  key: ({ executionId }: { executionId: string }) => executionId,
  schema: v.object({ n: v.number() }),
};
const workflows = [
  defineWorkflow({ id: "line", input: v.object({ n: v.number() }), resumeSchema: v.object({ note: v.string() }) })
    .andThen({ id: "a", execute: code })
    .andThen({ id: "b", execute: code, resumeSchema: v.object({ n: v.number() }) })
    .andThen({ id: "c", execute: code, resumeSchema: Ok })
    .andThen({ id: "d", execute: code }),
  defineWorkflow({ id: "fork" })
    .andThen({ id: "x", execute: code })
    .andAll({
      id: "all",
      steps: [andThen({ id: "p", execute: code, resumeSchema: Ok }), andThen({ id: "q", execute: code })],
    })
    .andThen({ id: "z", execute: code }),
  defineWorkflow({ id: "calm" })
    .andThen({ id: "a", execute: code })
    .andSleep({ id: "nap", duration: tickMs })
    .andWaitFor({ ...mail, timeout: 3 * tickMs })
    .andThen({ id: "z", execute: code }),
  defineWorkflow({ id: "busy" })
    .andThen({ id: "x", execute: code })
    .andAll({
      id: "all",
      steps: [
        andThen({ id: "p", execute: code, resumeSchema: Ok }),
        andSleep({ id: "nap", duration: tickMs }),
        andWaitFor(mail),
      ],
    })
    .andThen({ id: "z", execute: code }),
];

/** What happens elsewhere takes time, and a signal is aborted after the cancel was answered. */
export const isRemote = chosenBackend.name === "restate";
let client: Client | undefined;
/** How long a thing may take that needs no clock; a failure costs that much for each step of shrinking. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
/** Enough turns of the event loop for anything that needs no clock: a commit, and whatever it wakes. */
export async function pause(count = 6): Promise<void> {
  for (let i = 0; i < count; i++) await turn();
}

/** A server on a file, the steps that wait in it, and what the model says of them. */
export class World {
  readonly models: Model[] = [];
  readonly runs: RealRun[] = [];
  readonly trace: string[] = [];
  readonly logs: LogRecord[] = [];
  /** The number of times that time has passed. */
  ticks = 0;
  /** The events that were sent. */
  readonly sent: { id: string; key: string; data: unknown }[] = [];
  readonly #file: string;
  readonly #backend: Backend;
  readonly #waiting = new Set<Waiting>();
  /** Every lifecycle event that anybody has been shown, by execution and seq. */
  readonly #shown = new Map<string, Map<number, unknown>>();
  /** Undefined where time cannot be moved. */
  readonly #clock: TestClock | undefined = isRemote ? undefined : createClock();
  #server!: OpenServer;

  static async open(file: string): Promise<World> {
    world = new World(file, await openPlace(file));
    world.open();
    client ??= createClient(
      (path, init) => world.#server.fetch(new Request(`http://localhost${path}`, init)),
      (await (await world.#server.fetch(new Request("http://localhost/doc"))).json()) as never,
    );
    return world;
  }

  constructor(file: string, backend: Backend) {
    this.#file = file;
    this.#backend = backend;
  }

  open(): void {
    const server = { limits: { drainMs: 1, inlineSleepMs: 1 } };
    const project = toProject({ backend: this.#backend, workflows, server });
    time.now = this.#now();
    this.#server = openServer(project, { mode: "start", logger: createTestLogger(this.logs), clock: this.#clock });
  }

  #now(): number {
    return this.#clock?.now() ?? Number.NaN;
  }
  /** Some time passes. */
  async advance(): Promise<void> {
    this.ticks++;
    await this.#clock!.advance(tickMs);
    time.now = this.#now();
  }

  async close(): Promise<void> {
    await this.#server.close();
    for (const end of ["", "-wal", "-shm"]) rmSync(this.#file + end, { force: true });
  }

  /** What a step's code does. */
  enter(context: StepContext<any, any, any, any>): Promise<unknown> {
    const {
      executionId,
      stepId: step,
      attempt,
      idempotencyKey,
      data,
      input,
      resumeData,
      timedOut,
      signal,
      getStepData,
    } = context;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const known = ["a", "b", "c", "d", "x", "all", "p", "q", "z", "nap", "mail"].map((id) => [id, getStepData(id)]);
    const run: RealRun = {
      executionId,
      step,
      attempt,
      idempotencyKey,
      data,
      input,
      resumeData,
      timedOut,
      signal,
      context: Object.fromEntries(context.context),
      stepData: (id) => Object.fromEntries(known)[id],
      acted: false,
      act(action) {
        run.acted = true;
        if (action.type === "return") resolve(toValue(step, action.n));
        else if (action.type === "suspend")
          void context.suspend(action.reason, action.data as never, action.isTimed ? { timeout: deadlineMs } : {});
        else reject(action.shown ? new ServeError(418, errorOf(step, true)) : new Error("a secret"));
      },
    };
    this.runs.push(run);
    return promise;
  }

  /** Does what leads to this many rows of an execution at least, and waits until they are recorded. */
  async recorded<T>(id: string, act: () => T, count: (result: Awaited<T>) => number): Promise<Awaited<T>> {
    const before = isRemote ? await this.#countRows(id) : 0;
    const result = await act();
    const rows = before + count(result);
    if (isRemote) await until(async () => (await this.#countRows(id)) >= rows, `${rows} rows of ${id}`);
    else await pause();
    return result;
  }
  async #countRows(id: string): Promise<number> {
    const path = `${String(this.#backend.settings!["name"])}.drive/${id}/rows`;
    const headers = { "content-type": "application/json" };
    const body = String(Number.MAX_SAFE_INTEGER);
    const response = await fetch(`${process.env["TEST_RESTATE_INGRESS"]}/${path}`, { method: "POST", headers, body });
    const { last } = (await response.json()) as { last?: { number: number } };
    return last ? last.number + 1 : 0;
  }
  /** Waits until an execution exists that was asked for. */
  async begun(workflow: string, id: string): Promise<void> {
    const path = `/workflows/${workflow}/executions/${id}/state`;
    await pause();
    if (isRemote) await until(async () => (await this.request(path)).status === 200, `${id} to exist`);
  }

  /** Sends what is answered at once. */
  request(path: string, init: Init = {}): Promise<Answer> {
    return within(client!.request(path, init), `${init.method ?? "GET"} ${path} is answered`);
  }
  post(path: string, json?: unknown, headers?: Record<string, string>): Promise<Answer> {
    return this.request(path, { method: "POST", json, ...(headers && { headers }) });
  }

  /** Sends what may be answered only later, by the model's next suspension or end. */
  wait(id: string, kind: Waiting["kind"], path: string, init: Init, after = 0): Waiting {
    const asked = client!.request(path, init).then(
      (answer) => void (waiting.answer = answer),
      (error: unknown) => void (waiting.error = error),
    );
    const waiting: Waiting = { id, kind, after, answered: asked };
    this.#waiting.add(waiting);
    return waiting;
  }
  forget(waiting: Waiting): void {
    this.#waiting.delete(waiting);
  }

  runsOf(id: string, step: string): RealRun[] {
    return this.runs.filter((run) => run.executionId === id && run.step === step);
  }
  /** The run that the execution waits for. */
  live(id: string, step: string): RealRun {
    return this.runsOf(id, step).at(-1)!;
  }
  /** Runs that nobody waits for any more: of an earlier process, of a step left behind, of an ended execution. */
  zombies(): RealRun[] {
    const live = new Set(this.models.flatMap((model) => inFlight(model).map((step) => this.live(model.id, step))));
    return this.runs.filter((run) => !run.acted && !live.has(run));
  }

  lastSeen(id: string): number {
    return Math.max(0, ...(this.#shown.get(id)?.keys() ?? []));
  }

  /**
   * The server closes; whoever waits is told so. An execution whose step ends in the same moment may settle first, in
   * one of these ways.
   */
  async stop(racing = -1, outcomes: readonly Model[] = []): Promise<void> {
    await this.#server.close();
    for (const waiting of this.#waiting) {
      await this.#answered(waiting, "a waiting call is answered when the server closes");
      const model = this.models.find(({ id }) => id === waiting.id)!;
      const { status, events } = waiting.answer!;
      const cut = status === 503 || (waiting.kind === "stream" && events.at(-1)?.type !== "workflow-result");
      if (!cut && this.models[racing] === model && outcomes.some((one) => one.status !== "running")) continue;
      // A stream that has had no event yet has no headers yet: it may be a plain error.
      if (waiting.kind === "stream" && waiting.answer!.status !== 503) this.#checkEvents(model, waiting, false);
      else expect(waiting.answer).toMatchObject({ status: 503, body: { success: false, executionId: waiting.id } });
      expect(waiting.answer!.headers.get("x-execution-id")).toBe(waiting.id);
      this.#waiting.delete(waiting);
    }
  }

  /** Waits until the execution has become one of these, and lets no status be seen that is neither before nor after. */
  async become(index: number, ...outcomes: Model[]): Promise<Model> {
    const before = this.models[index];
    const [first] = outcomes;
    for (const end = Date.now() + patienceMs; ;) {
      const view = await this.state(first!);
      const [next, ...others] = outcomes.filter((model) => this.#fits(model, view));
      if (next) {
        // Of an end, different stories may be told.
        if (isEnded(next)) next.others = [...(next.others ?? []), ...others];
        this.models[index] = next;
        this.#learn(next, view);
        break;
      }
      // A resume goes through `running`, even if it is suspended again at once.
      const between = first === before ? [] : ["running"];
      const allowed = [before?.status, ...between, ...outcomes.map(({ status }) => status)];
      if (!allowed.includes(view.status)) expect(view).toEqual(toView(first!, view));
      if (Date.now() > end) {
        expect(view, "the state").toEqual(toView(first!, view));
        this.#checkRuns(first!);
        throw new Error("no legal outcome fits, though the first one does in every part");
      }
      await turn();
    }
    const model = this.models[index];
    if (model!.status !== "running") await this.#settle(model!);
    return model!;
  }

  /** The whole world is as the model says, now. */
  async check(): Promise<void> {
    for (const model of this.models) {
      const view = await this.state(model);
      expect(view, "the state").toEqual(toView(model, view));
      this.#checkRuns(model);
      if (model.status !== "error") continue;
      for (const step of shapeOf(model.workflow).tops.flatMap(({ leaves }) => leaves)) {
        if (model.leaves[step]?.is !== "running") continue;
        const run = this.live(model.id, step);
        if (isRemote) await until(() => run.acted || run.signal.aborted, `the signal of ${step} to be aborted`);
        if (!run.acted) expect(run.signal.aborted, `the signal of ${step} is aborted`).toBe(true);
      }
    }
    for (const waiting of this.#waiting)
      expect(waiting.answer ?? waiting.error, `nobody answers ${waiting.id} before it settles`).toBeUndefined();
    const broken = this.logs.filter(({ level, message }) => level === "error" && message !== "Step failed");
    expect(broken, "the server's log").toEqual([]);
  }

  async state({ id, workflow }: Model): Promise<any> {
    const { status, body } = await this.request(`/workflows/${workflow}/executions/${id}/state`);
    expect(status, `state of ${id}`).toBe(200);
    return body.data;
  }

  #fits(model: Model, view: any): boolean {
    return (
      isDeepStrictEqual(normal(view), toView(model, view)) &&
      [
        ...new Set([...this.runs.filter((run) => run.executionId === model.id), ...model.runs].map(({ step }) => step)),
      ].every((step) => this.runsOf(model.id, step).length === model.runs.filter((run) => run.step === step).length)
    );
  }

  #learn(model: Model, view: any): void {
    const { times } = model;
    times.startAt ??= view.startAt;
    if (view.endAt) times.endAt ??= view.endAt;
    if (view.suspension) times.suspendedAt ??= view.suspension.suspendedAt;
    const now = new Date(this.#clock?.now() ?? Date.now()).toISOString();
    for (const one of Object.values(times)) {
      if (one === undefined) continue;
      expect(one >= times.startAt! && one <= now, `${one} lies within the run`).toBe(true);
    }
    learnDues(model, view.suspension);
  }

  /** How often each step's code ran, and what it was given. */
  #checkRuns(model: Model): void {
    const real = this.runs.filter((run) => run.executionId === model.id);
    const count = (runs: readonly { step: string }[]): Record<string, number> => {
      const counts: Record<string, number> = {};
      for (const { step } of runs) counts[step] = (counts[step] ?? 0) + 1;
      return counts;
    };
    expect(count(real), `runs of the steps of ${model.id}`).toEqual(count(model.runs));
    for (const step of new Set(model.runs.map((run) => run.step))) {
      const expected = model.runs.filter((run) => run.step === step);
      for (const [n, run] of this.runsOf(model.id, step).entries()) {
        const { suffix, data, resumeData, anyResumeData, timedOut, stepData } = expected[n]!;
        const what = `run ${n + 1} of ${step} in ${model.id}`;
        expect(
          {
            attempt: run.attempt,
            key: run.idempotencyKey.slice(-(step + suffix).length - 1).slice(1),
            data: run.data,
            input: run.input,
            context: run.context,
            resumeData: anyResumeData ? undefined : run.resumeData,
            timedOut: run.timedOut,
            stepData: Object.fromEntries(Object.keys(stepData).map((id) => [id, run.stepData(id)])),
          },
          what,
        ).toEqual({
          attempt: 1,
          key: step + suffix,
          data,
          input: model.input,
          context: model.context,
          resumeData: anyResumeData ? undefined : resumeData,
          timedOut,
          stepData,
        });
        // One key for each step and suffix, whatever happened in between.
        expect(run.idempotencyKey, what).toContain(model.id);
        const first = this.runsOf(model.id, step)[expected.findIndex((one) => one.suffix === suffix)]!;
        expect(run.idempotencyKey, what).toBe(first.idempotencyKey);
      }
    }
  }

  /** The suspension or the end has answered everybody who waits. */
  async #settle(model: Model): Promise<void> {
    for (const waiting of this.#waiting) {
      if (waiting.id !== model.id) continue;
      await this.#answered(waiting, `${waiting.kind} of ${model.id} is answered when it is ${model.status}`);
      this.#waiting.delete(waiting);
      if (waiting.kind === "stream") this.#checkEvents(model, waiting, true);
      else checkResult(model, waiting.answer!);
    }
  }

  async #answered(waiting: Waiting, what: string): Promise<void> {
    await within(waiting.answered, what);
    if (waiting.error) throw waiting.error;
  }

  /** `seq` goes up by one, from where the reader asked, and is what every other reader has seen; the result comes last. */
  #checkEvents(model: Model, { answer, after }: Waiting, settled: boolean): void {
    const { status, headers, events } = answer!;
    expect(status).toBe(200);
    expect(headers.get("x-execution-id")).toBe(model.id);
    const last = settled ? events.at(-1) : undefined;
    const stored = settled ? events.slice(0, -1) : events;
    expect(
      stored.map(({ seq }) => seq),
      `seqs of ${model.id} after ${after}`,
    ).toEqual(stored.map((_, index) => after + index + 1));
    const shown = this.#shown.get(model.id) ?? new Map<number, unknown>();
    this.#shown.set(model.id, shown);
    for (const event of stored) {
      expect(event.executionId).toBe(model.id);
      if (shown.has(event.seq))
        expect(event, `event ${event.seq} of ${model.id} stays what it was`).toEqual(shown.get(event.seq));
      shown.set(event.seq, event);
    }
    if (!settled) return;
    expect(
      after + stored.length,
      `no event of ${model.id} that somebody has seen is missing: ${stored.map(({ type }) => type).join()}`,
    ).toBeGreaterThanOrEqual(Math.max(0, ...shown.keys()));
    const { type, executionId, timestamp: _, ...rest } = last;
    const {
      executionId: __,
      input: _input,
      context: _context,
      workflowId: _workflowId,
      forkedFrom: _forkedFrom,
      ...view
    } = toView(model, {}) as any;
    expect({ type, executionId, ...normal(rest) }, "the event that closes the stream").toEqual({
      type: "workflow-result",
      executionId: model.id,
      result: null,
      ...view,
      // DESIGN does not name it here, nor forbid it.
      ...("cancellation" in rest && { cancellation: rest.cancellation }),
    });
    if (after === 0) checkStory(model, stored);
  }
}

/** The lifecycle events from the first on, against the model. */
function checkStory(model: Model, events: any[]): void {
  const isStep = ({ type }: { type: string }): boolean => type.startsWith("step-");
  expect(events[0]?.type).toBe("workflow-start");
  const steps = events.filter(isStep);
  const told = steps.map(({ type, from }) => `${type} ${from}`);
  const turns = events.filter((event) => !isStep(event)).map(({ type }) => type);
  const tellable = [model, ...(model.others ?? [])].map((one) => ({ turns: one.turns, steps: toStory(one) }));
  if (!tellable.some((one) => isDeepStrictEqual(one.turns, turns) && isTold(one.steps, told)))
    expect({ turns, steps: told }, "the story; what begins with ? may be missing").toEqual(tellable[0]);
  const { tops } = shapeOf(model.workflow);
  for (const { type, from, stepIndex, stepType, attempt, status } of steps) {
    const index = tops.findIndex(({ id, leaves }) => id === from || leaves.includes(from));
    expect({ stepIndex, stepType, attempt, status }).toEqual({
      stepIndex: index,
      stepType: ({ all: "andAll", nap: "andSleep", mail: "andWaitFor" } as Record<string, string>)[from] ?? "andThen",
      attempt: 1,
      status: type === "step-complete" ? "success" : undefined,
    });
  }
  const last = events.findLast((event) => !isStep(event));
  const view = toView(model, {}) as any;
  if (model.status === "suspended") expect(normal(last).suspension).toEqual(view.suspension);
  if (model.status === "error" && !model.cancellation) expect(last.error).toBe(view.error);
}

/** Whether these events are that story. */
function isTold(story: readonly string[], events: readonly string[]): boolean {
  const [first, ...rest] = story;
  if (first === undefined) return events.length === 0;
  const maybe = first.startsWith("?");
  if (events[0] === first.replace("?", "") && isTold(rest, events.slice(1))) return true;
  return maybe && isTold(rest, events);
}

/** What `execute` and `resume` answer once the execution has settled. */
function checkResult(model: Model, { status, headers, body }: Answer): void {
  const view = toView(model, {}) as any;
  expect(headers.get("x-execution-id")).toBe(model.id);
  if (model.status === "error") {
    const [answered, error] = model.cancellation
      ? [409, `Execution ${model.id} was cancelled`]
      : [model.failure === hiddenError ? 500 : 418, model.failure];
    expect({ status, body }).toEqual({ status: answered, body: { success: false, error, executionId: model.id } });
    return;
  }
  expect({ status, data: normal(body.data) }).toEqual({ status: 200, data: toResultView(view) });
}

export function toResultView({
  executionId,
  startAt,
  endAt,
  status,
  result = null,
  suspension,
  cancellation,
}: any): any {
  const { stepIndex: suspendedStepIndex, ...where } = suspension ?? {};
  return {
    executionId,
    startAt,
    endAt,
    status,
    result,
    ...(suspension && { suspension: { ...where, suspendedStepIndex } }),
    ...(cancellation && { cancellation }),
  };
}

/** The state that the model calls for; times that nobody has seen yet are taken from the view. */
export function toView(model: Model, view: any): unknown {
  const { id, workflow, status, input, context, times, suspension, result, failure, cancellation, forkedFrom } = model;
  const endAt = isEnded(model) ? (times.endAt ?? view.endAt) : null;
  const { by: _, pending, ...where } = suspension ?? {};
  const found: any[] = view.suspension?.pending ?? [view.suspension ?? {}];
  const toBranch = (one: any): unknown => toTimed(one, id, found.find(({ stepId }) => stepId === one.stepId) ?? {});
  return {
    executionId: id,
    workflowId: workflow,
    status,
    startAt: times.startAt ?? view.startAt,
    endAt,
    input,
    context,
    ...(status === "suspended" && {
      suspension: {
        suspendedAt: times.suspendedAt ?? view.suspension?.suspendedAt,
        ...(toBranch(where) as object),
        ...(pending && { pending: pending.map(toBranch) }),
      },
    }),
    ...(forkedFrom !== undefined && { forkedFrom }),
    ...(status === "completed" && { result }),
    ...(status === "error" && failure !== undefined && !cancellation && { error: failure }),
    ...(cancellation && {
      cancellation: {
        cancelledAt: endAt,
        reason: cancellation.reason ?? view.cancellation?.reason ?? expect.any(String),
      },
    }),
  };
}

/** A branch that waits, as it is shown. A time that nobody has seen yet is taken from the view. */
function toTimed({ due, ...branch }: any, key: string, found: any): unknown {
  const { kind } = branch;
  if (kind === "request") return branch;
  const show = (seen: string): string => (Number.isNaN(due) ? seen : new Date(due).toISOString());
  if (kind === "timer")
    return { ...branch, reason: `Sleeping until ${show(found.wakeAt)}`, wakeAt: show(found.wakeAt) };
  return {
    ...branch,
    ...(kind === "event" && { event: eventName, key }),
    ...(due !== undefined && { deadline: show(found.deadline) }),
  };
}

/** From now on, the times that were seen may not change. */
function learnDues({ suspension, leaves }: Model, found: any): void {
  if (suspension?.by !== "step") return;
  for (const seen of found.pending ?? [found]) {
    const at = Date.parse(seen.wakeAt ?? seen.deadline);
    const parts = [suspension, ...(suspension.pending ?? [])].filter(({ stepId }) => stepId === seen.stepId);
    for (const part of [...parts, leaves[seen.stepId] as { due?: number }]) if (Number.isNaN(part.due)) part.due = at;
  }
}

/** `pending` is said to hold all the branches that wait; with one or none it may as well be absent. */
function normal(view: any): any {
  if ((view?.suspension?.pending?.length ?? 2) > 1) return view;
  const { pending: _, ...suspension } = view.suspension;
  return { ...view, suspension };
}
