// oxlint-disable vitest/no-standalone-expect -- the commands of the model are run inside a test
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterAll, describe, expect, it } from "vitest";
import { chosenBackend } from "../../harness/backends.ts";
import { bySize } from "../../harness/size.ts";
import { within } from "../../harness/waiting.ts";
import {
  begin,
  cancel,
  eventName,
  finish,
  fork,
  inFlight,
  isOverdue,
  pass,
  receive,
  restart,
  resume,
  retry,
  shapeOf,
  stepIds,
  suspend,
  type Action,
  type Model,
  type WorkflowId,
} from "./oracle.ts";
import { isRemote, pause, toResultView, toView, World } from "./world.ts";

const numRuns = chosenBackend.name === "restate" ? bySize(3, 30) : bySize(30, 2_000);
const folder = mkdtempSync(join(tmpdir(), "agentserve-model-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const counts = new Map<string, number>();
const count = (name: string): void => void counts.set(name, (counts.get(name) ?? 0) + 1);

type Command = fc.AsyncCommand<World, World>;

/** A command that says what it did: after a failure the shrunk sequence is read from the error itself. */
function command<T>(
  name: string,
  args: fc.Arbitrary<T>,
  check: (world: World) => boolean,
  run: (world: World, args: T) => Promise<string>,
): fc.Arbitrary<Command> {
  return args.map((one) => ({
    check,
    async run(_, world) {
      let did = "";
      try {
        did = await run(world, one);
        await world.check();
      } catch (error) {
        const here = `${name} ${fc.stringify(one)}${did && ` → ${did}`}`;
        const story = [...world.trace, `${here}   ← here`].map((line) => `  ${line}`).join("\n");
        throw new Error(`after these commands:\n${story}\n${(error as Error).message}`, { cause: error });
      }
      count(`${name} ${did.split(" ")[0]}`);
      world.trace.push(`${name} ${fc.stringify(one)} → ${did}`);
    },
    toString: () => `${name} ${fc.stringify(one)}`,
  }));
}

const who = fc.nat({ max: 5 });
const some = ({ models }: World): boolean => models.length > 0;
const pick = <T>(list: readonly T[], n: number): T => list[n % list.length]!;
const at = ({ id, workflow }: Model, verb: string): string => `/workflows/${workflow}/executions/${id}/${verb}`;
/** Rather one that has this status, if there is one. */
function target({ models }: World, n: number, status: Model["status"]): { model: Model; index: number } {
  const likely = models.filter((model) => model.status === status);
  const model = pick(n % 4 > 0 && likely.length > 0 ? likely : models, n);
  return { model, index: models.indexOf(model) };
}
const refused = { success: false, error: expect.any(String) };
/** An error about an execution that has begun names it. */
const refusedAbout = ({ id }: Model) => ({ ...refused, executionId: id });

const action: fc.Arbitrary<Action> = fc.oneof(
  { weight: 12, arbitrary: fc.record({ type: fc.constant("return" as const), n: fc.nat({ max: 99 }) }) },
  {
    weight: 4,
    arbitrary: fc.record(
      {
        type: fc.constant("suspend" as const),
        reason: fc.constantFrom("why", "Wait for me"),
        data: fc.constantFrom<unknown>({ q: 1 }, null, "text"),
        isTimed: fc.boolean(),
      },
      { requiredKeys: ["type"] },
    ),
  },
  { weight: 1, arbitrary: fc.record({ type: fc.constant("throw" as const), shown: fc.boolean() }) },
);
const show = (did: Action): string => (did.type === "return" ? `returns ${did.n}` : `${did.type}s`);

const beginOne = command(
  "begin",
  fc.record({
    workflow: fc.constantFrom<WorkflowId>("line", "line", "fork", "calm", "busy"),
    via: fc.constantFrom("async", "execute", "stream"),
    options: fc.record(
      {
        userId: fc.constantFrom("u1", "u2"),
        conversationId: fc.constant("k1"),
        context: fc.constantFrom<Record<string, unknown>>({ tenant: "t1" }, { deep: { list: [1] } }),
      },
      { requiredKeys: [] },
    ),
    n: fc.nat({ max: 9 }),
    twist: fc.constantFrom("none", "none", "none", "none", "twice", "taken", "bad id", "bad input", "own id"),
  }),
  ({ models }) => models.length < 4,
  async (world, { workflow, via, options, n, twist }) => {
    const path = `/workflows/${workflow}/${via === "stream" ? "stream" : "execute"}`;
    const headers: Record<string, string> = via === "async" ? { prefer: "respond-async" } : {};
    const send = (id: string | undefined, input: unknown = { n }) =>
      world.post(path, { input, options: { ...options, ...(id !== undefined && { executionId: id }) } }, headers);

    if (twist === "bad id" || twist === "bad input") {
      const { status, body } = twist === "bad id" ? await send("-no") : await send("e0", [n]);
      expect({ status, body }).toEqual({ status: 400, body: refused });
      if (twist === "bad input") expect(body.error).toMatch(/^Input validation failed: /);
      return `400 ${twist}`;
    }
    if (twist === "taken" && world.models.length > 0) {
      const { id } = pick(world.models, n);
      const { status, body } = await send(id);
      const error = `Execution ${id} already exists`;
      expect({ status, body }).toEqual({ status: 409, body: { success: false, error } });
      return `409 ${id} exists`;
    }
    let id = `e${world.models.length + 1}`;
    if (via === "async") {
      const given = twist !== "own id";
      const asked = given && twist === "twice" ? [send(id), send(id)] : [send(given ? id : undefined)];
      const answers = await Promise.all(asked);
      const [won, ...lost] = answers.toSorted((one, other) => one.status - other.status);
      if (!given) id = won!.body.data.executionId;
      expect(won).toMatchObject({ status: 202, body: { data: { executionId: id, status: "running" } } });
      expect(won!.headers.get("x-execution-id")).toBe(id);
      for (const { status } of lost) expect(status).toBe(409);
    } else {
      const json = { input: { n }, options: { ...options, executionId: id } };
      world.wait(id, via === "stream" ? "stream" : "call", path, { method: "POST", json, headers });
      await world.begun(workflow, id); // until it is there, `state` would be 404
    }
    const { context = {}, ...user } = options;
    const model = begin({ id, workflow, input: { n }, context: { ...context, ...user } });
    await world.become(world.models.length, model);
    return `200 ${id} runs`;
  },
);

interface Flying {
  index: number;
  step: string;
}
const flying = ({ models }: World): Flying[] =>
  models.flatMap((model, index) => inFlight(model).map((step) => ({ index, step })));

const isRunning = ({ models }: World, { index }: Flying): boolean => models[index]!.status === "running";
/** Whether a wait is beside this step or follows it: nobody can say at which moment it begins. */
function leadsToWait({ models }: World, { index, step }: Flying): boolean {
  return shapeOf(models[index]!.workflow).waits !== undefined && step !== "z";
}

/** Some time passes. */
const timePasses = command(
  "time",
  fc.constant(undefined),
  // A step may take 15 minutes.
  ({ models, ticks }) => !isRemote && models.length > 0 && ticks < 20,
  async (world) => {
    await world.advance();
    let continued = 0;
    for (const [index, model] of world.models.entries()) {
      const next = pass(model);
      if (next !== model) continued++;
      await world.become(index, next);
    }
    return `${continued > 0 ? "ends" : "passes"} ${continued} executions continue`;
  },
);

/** An event for an execution that waits for it: a right one, a wrong one, for another key, or one that was sent before. */
const eventComes = command(
  "event",
  fc.record({
    who,
    n: fc.nat({ max: 9 }),
    twist: fc.constantFrom("none", "none", "wrong data", "another key", "again", "another body"),
  }),
  (world) => world.models.some(isAwaiting),
  async (world, { who: n, n: amount, twist }) => {
    const model = pick(world.models.filter(isAwaiting), n);
    const index = world.models.indexOf(model);
    const { sent } = world;
    const old = sent.findLast(({ key }) => key === model.id);
    const isOld = (twist === "again" || twist === "another body") && old !== undefined;
    const right = isOld && twist === "again" ? old.data : { n: isOld ? -amount - 1 : amount };
    const data = twist === "wrong data" ? { n: "no" } : right;
    const id = isOld ? old.id : `m${sent.length + 1}`;
    const key = twist === "another key" ? "nobody" : model.id;
    const { status, body } = await world.post("/events", { name: eventName, key, data, id });
    if (isOld && twist === "another body") {
      expect({ status, body }).toEqual({ status: 409, body: refused });
      return `409 ${id}`;
    }
    expect({ status, body }).toEqual({ status: 202, body: { success: true, data: { id } } });
    if (!isOld) sent.push({ id, data, key });
    const next = key === model.id ? receive(model, id, data) : model;
    await pause(next === model ? 20 : 0);
    await world.become(index, next);
    return `${next === model ? "left" : "taken"} ${id} (${twist}) by ${model.id}`;
  },
);
const isAwaiting = (model: Model): boolean =>
  model.leaves["mail"]?.is === "waiting" && (model.status === "running" || model.suspension?.by === "step");

const stepFinishes = command(
  "step",
  fc.record({ who, action }),
  (world) => flying(world).length > 0,
  async (world, { who: n, action: how }) => {
    const { index, step } = pick(flying(world), n);
    const model = world.models[index]!;
    // Not every ending shows in `state`: it is recorded before the next command.
    await world.recorded(
      model.id,
      () => world.live(model.id, step).act(how),
      () => 1,
    );
    const next = finish(model, step, how);
    await world.become(index, next);
    return `${how.type} ${step} of ${model.id} ${show(how)}, ${model.status} → ${next.status}`;
  },
);

/** A step that nobody waits for ends all the same. */
const strayFinishes = command(
  "stray",
  fc.record({ who, action }),
  (world) => world.zombies().length > 0,
  async (world, { who: n, action: how }) => {
    const run = pick(world.zombies(), n);
    run.act(how);
    await pause();
    return `${how.type} ${run.step} of ${run.executionId} ${show(how)}`;
  },
);

const suspendOne = command(
  "suspend",
  fc.record({ who, reason: fc.constantFrom(undefined, "later") }),
  some,
  async (world, { who: n, reason }) => {
    const { model, index } = target(world, n, "running");
    const next = suspend(model, reason);
    const { status, body } = await world.post(at(model, "suspend"), reason && { reason });
    if (!next) {
      expect({ status, body }).toEqual({ status: 400, body: refusedAbout(model) });
      return `400 ${model.id} is ${model.status}`;
    }
    expect(status).toBe(200);
    const { times } = await world.become(index, next);
    const suspension = { suspendedAt: times.suspendedAt, reason: next.suspension!.reason };
    expect(body.data).toEqual({ executionId: model.id, status: "suspended", suspension });
    return `200 ${model.id} at ${next.suspension!.stepId}`;
  },
);

const good = Symbol("good");
const goodFor: Record<string, unknown> = {
  a: { note: "x" },
  b: { n: 1 },
  c: { ok: true },
  d: { note: "y" },
  p: { ok: false },
};
const resumeOne = command(
  "resume",
  fc.record({
    who,
    step: fc.option(fc.nat({ max: 9 }), { nil: undefined, freq: 2 }),
    data: fc.oneof(
      { weight: 3, arbitrary: fc.constant(good) },
      { weight: 1, arbitrary: fc.constantFrom<unknown>(undefined, null, { ok: "no" }, { n: "1" }, { note: 1 }, 7) },
    ),
    twice: fc.boolean(),
  }),
  some,
  async (world, { who: n, step, data, twice }) => {
    const { model, index } = target(world, n, "suspended");
    let stepId = step === undefined ? undefined : pick([...stepIds(model.workflow), "nope"], step);
    // DESIGN leaves open what naming the step around the parked branches means.
    const here = shapeOf(model.workflow).tops[model.at]?.id;
    if (model.suspension?.by === "step" && stepId === here && model.leaves[stepId!]?.is !== "parked")
      stepId = undefined;
    if (isOverdue(model)) return `none ${model.id} has waits that are over`;
    const resumeData = data === good ? goodFor[stepId ?? model.suspension?.stepId ?? ""] : data;
    const json = {
      ...(resumeData !== undefined && { resumeData }),
      ...(stepId !== undefined && { options: { stepId } }),
    };
    const asked = `${model.id}${stepId ? ` from ${stepId}` : ""} with ${fc.stringify(resumeData)}`;
    const { code, next } = resume(model, stepId, resumeData);
    if (!next) {
      const { status, body } = await world.post(at(model, "resume"), json);
      expect({ status, body }).toEqual({ status: code, body: refusedAbout(model) });
      return `${code} ${asked}`;
    }
    const send = () => world.wait(model.id, "call", at(model, "resume"), { method: "POST", json });
    // When it is suspended again at once, the second may well win the second suspension.
    const both = twice && next.status !== "suspended" ? [send(), send()] : [send()];
    if (both.length > 1) {
      const loser = Promise.race(
        both.map((one) => one.answered.then(() => (one.answer?.status === 404 ? one : never))),
      );
      const beaten = await within(loser, "one of two resumes is 404");
      expect(beaten.answer!.body).toEqual(refusedAbout(model));
      world.forget(beaten);
    }
    await world.become(index, next);
    return `200 ${asked}${both.length > 1 ? ", one of two" : ""} → ${next.status}`;
  },
);
const never = new Promise<never>(() => {});

const retryOne = command(
  "retry",
  fc.record({ who, twice: fc.boolean(), isAsync: fc.boolean() }),
  some,
  async (world, { who: n, twice, isAsync }) => {
    const { model, index } = target(world, n, "error");
    const next = retry(model);
    if (!next) {
      const { status, body } = await world.post(at(model, "retry"));
      expect({ status, body }).toEqual({ status: 409, body: refusedAbout(model) });
      return `409 ${model.id} is ${model.status}`;
    }
    if (model.others?.length) return `none ${model.id} has several stories`;
    if (isAsync) {
      const answer = await world.post(at(model, "retry"), undefined, { prefer: "respond-async" });
      expect(answer).toMatchObject({ status: 202, body: { data: { executionId: model.id, status: "running" } } });
    } else {
      const send = () => world.wait(model.id, "call", at(model, "retry"), { method: "POST" });
      const both = twice ? [send(), send()] : [send()];
      if (both.length > 1) {
        const loser = both.map((one) => one.answered.then(() => (one.answer?.status === 409 ? one : never)));
        world.forget(await within(Promise.race(loser), "one of two retries is 409"));
      }
    }
    await world.become(index, next);
    return `200 ${model.id}${twice && !isAsync ? ", one of two" : ""}`;
  },
);

const forkOne = command(
  "fork",
  fc.record({ who, step: fc.option(fc.nat({ max: 9 }), { nil: undefined, freq: 2 }) }),
  ({ models }) => models.length > 0 && models.length < 6,
  async (world, { who: n, step }) => {
    const model = pick(world.models, n);
    const fromStep = step === undefined ? undefined : pick([...stepIds(model.workflow), "nope"], step);
    const isTold = !model.others?.length && !model.stepEvents.some((event) => event.startsWith("?"));
    if (!isTold) return `none ${model.id} has several stories`;
    const id = `e${world.models.length + 1}`;
    const { code, next } = fork(model, fromStep, id);
    const json = { ...(fromStep !== undefined && { fromStep }), options: { executionId: id } };
    if (!next) {
      const { status, body } = await world.post(at(model, "fork"), json);
      expect({ status, body }).toEqual({ status: code, body: refused });
      return `${code} ${model.id} from ${fromStep}`;
    }
    world.wait(id, "call", at(model, "fork"), { method: "POST", json });
    await world.begun(model.workflow, id);
    await world.become(world.models.length, next);
    return `200 ${id} of ${model.id} from ${fromStep}`;
  },
);

const cancelOne = command(
  "cancel",
  fc.record({ who, reason: fc.constantFrom(undefined, "enough") }),
  some,
  async (world, { who: n, reason }) => {
    const index = n % world.models.length;
    const model = world.models[index]!;
    const next = cancel(model, reason);
    const { status, headers, body } = await world.post(at(model, "cancel"), reason && { reason });
    if (!next) {
      expect({ status, body }).toEqual({ status: 400, body: refusedAbout(model) });
      return `400 ${model.id} is ${model.status}`;
    }
    expect(status).toBe(200);
    expect(headers.get("x-execution-id")).toBe(model.id);
    const cancelled = await world.become(index, next);
    expect(body.data).toEqual(toResultView(toView(cancelled, {})));
    return `200 ${model.id} was ${model.status}`;
  },
);

/** A step ends at the very moment in which somebody suspends or cancels: one legal outcome. */
const raceOne = command(
  "race",
  fc.record({ who, action, against: fc.constantFrom("suspend", "cancel"), wait: fc.nat({ max: 3 }) }),
  (world) => flying(world).some((one) => isRunning(world, one) && !leadsToWait(world, one)),
  async (world, { who: n, action: how, wait, ...asked }) => {
    const running = flying(world).filter((one) => isRunning(world, one) && !leadsToWait(world, one));
    const { index, step } = pick(running, n);
    const model = world.models[index]!;
    const finished = [finish(model, step, how), finish(model, step, how, false)];
    // A cancel that comes second would settle it twice, and whoever waits is told of either.
    const against = finished[0]!.status === "suspended" ? "suspend" : asked.against;
    const race = async () => {
      world.live(model.id, step).act(how);
      await pause(wait);
      return world.post(at(model, against), { reason: "now" });
    };
    // Both are recorded, unless the one that is first ends it.
    const { status } = await world.recorded(model.id, race, (answer) =>
      answer.status === 200 && against === "suspend" ? 2 : 1,
    );
    const stop = (one: Model) => (against === "suspend" ? suspend(one, "now") : cancel(one, "now"));
    const stopped = stop(model)!;
    // The step may have been told as complete before the cancel won.
    const late = finished[0]!.stepEvents.slice(model.stepEvents.length);
    if (against === "cancel") stopped.stepEvents.push(...late.map((event) => `?${event}`));
    const after = against === "suspend" ? finish(stopped, step, how) : stopped;
    const outcomes =
      status === 200 ? [after, ...finished.flatMap((one) => stop(one) ?? [])] : finished.filter((one) => !stop(one));
    // Recorded as the last one in flight, when what follows from it was not: the next is one that waits, or the whole.
    if (status === 200 && after.suspension && finished[0]!.status !== "running") {
      const { id, leaves } = shapeOf(model.workflow).tops[model.at]!;
      const next = [id, ...leaves.filter((leaf) => after.leaves[leaf]?.is === "parked").slice(0, 1)];
      for (const stepId of next) outcomes.push({ ...after, suspension: { ...after.suspension, stepId } });
    }
    expect([200, ...(outcomes.length > 0 ? [400] : [])]).toContain(status);
    const became = await world.become(index, ...outcomes);
    return `${status} ${against} while ${step} of ${model.id} ${show(how)} → ${became.status}`;
  },
);

const restartAll = command(
  "restart",
  fc.record({ finishing: fc.option(fc.record({ who, action, wait: fc.nat({ max: 3 }) }), { nil: undefined }) }),
  () => true,
  async (world, { finishing }) => {
    const outcomes = world.models.map((model) => [restart(model)]);
    let did = "";
    // Of a suspended one nobody could see by now whether it was recorded.
    const running = flying(world).filter((one) => isRunning(world, one) && !leadsToWait(world, one));
    if (finishing && running.length > 0) {
      const { index, step } = pick(running, finishing.who);
      const model = world.models[index]!;
      did = ` while ${step} of ${model.id} ${show(finishing.action)}`;
      world.live(model.id, step).act(finishing.action);
      // Recorded or not; and if so, the next step may have begun or not.
      for (const launch of [true, false]) outcomes[index]!.push(restart(finish(model, step, finishing.action, launch)));
      await pause(finishing.wait);
      // What settled before the process ended has been answered; from here on it may be either.
      await world.stop(index, outcomes[index]!);
    } else await world.stop();
    world.open();
    await pause();
    for (const [index, models] of outcomes.entries()) await world.become(index, ...models);
    return `again${did}`;
  },
);

const attach = command(
  "attach",
  fc.record({ who, after: fc.option(fc.nat({ max: 6 }), { nil: 0 }), header: fc.boolean() }),
  some,
  async (world, { who: n, after, header }) => {
    const index = n % world.models.length;
    const model = world.models[index]!;
    // What is beyond the last event is nobody's question.
    const from = Math.min(after, world.lastSeen(model.id));
    const path = at(model, "stream") + (header || from === 0 ? "" : `?after=${from}`);
    const headers: Record<string, string> = header && from > 0 ? { "last-event-id": String(from) } : {};
    world.wait(model.id, "stream", path, { headers }, from);
    await world.become(index, model);
    return `200 ${model.id} (${model.status}) after ${from}`;
  },
);

const list = command(
  "list",
  fc.record({
    workflow: fc.constantFrom<WorkflowId>("line", "fork", "calm", "busy"),
    status: fc.constantFrom(undefined, "running", "suspended", "completed", "error"),
    limit: fc.integer({ min: 1, max: 3 }),
  }),
  some,
  async (world, { workflow, status, limit }) => {
    const expected = world.models.filter((one) => one.workflow === workflow && (!status || one.status === status));
    const items: any[] = [];
    for (let cursor = ""; ;) {
      const query = `limit=${limit}${status ? `&status=${status}` : ""}${cursor && `&cursor=${cursor}`}`;
      const { status: answered, body } = await world.request(`/workflows/${workflow}/executions?${query}`);
      expect(answered).toBe(200);
      expect(body.data.items.length).toBeLessThanOrEqual(limit);
      items.push(...body.data.items);
      if (body.data.nextCursor === null || items.length > expected.length) break;
      cursor = body.data.nextCursor;
    }
    const byId = (one: { executionId: string }, other: { executionId: string }) =>
      one.executionId < other.executionId ? -1 : 1;
    expect(items.toSorted(byId)).toEqual(expected.map((one) => toView(one, {}) as any).toSorted(byId));
    const starts = items.map(({ startAt }) => startAt);
    expect(starts, "newest first").toEqual(starts.toSorted().toReversed());
    const { body: summaries } = await world.request("/workflows");
    for (const summary of summaries.data) {
      const runs = world.models.some((one) => one.workflow === summary.id && one.status === "running");
      expect(summary.status, `status of ${summary.id}`).toBe(runs ? "running" : "idle");
    }
    return `200 ${items.length} of ${workflow}`;
  },
);

/** Executions that are not there, or not this workflow's. */
const lost = command(
  "lost",
  fc.record({
    who,
    verb: fc.constantFrom("suspend", "resume", "cancel", "retry", "fork", "state", "stream"),
    known: fc.boolean(),
  }),
  some,
  async (world, { who: n, verb, known }) => {
    const { id, workflow } = pick(world.models, n);
    const path = known
      ? `/workflows/${workflow === "line" ? "fork" : "line"}/executions/${id}/${verb}`
      : `/workflows/${workflow}/executions/nobody/${verb}`;
    const method = verb === "state" || verb === "stream" ? "GET" : "POST";
    const { status, body } = await world.request(path, { method });
    expect({ status, body }).toEqual({ status: 404, body: refused });
    return `404 ${verb}`;
  },
);

/** How often each is drawn: most of a life is steps that end and people who answer. */
const weights: [command: fc.Arbitrary<Command>, weight: number][] = [
  [beginOne, 3],
  [stepFinishes, 10],
  [strayFinishes, 1],
  [timePasses, 3],
  [eventComes, 4],
  [suspendOne, 2],
  [resumeOne, 7],
  [retryOne, 3],
  [forkOne, 1],
  [cancelOne, 1],
  [raceOne, 2],
  [restartAll, 2],
  [attach, 1],
  [list, 1],
  [lost, 1],
];
const commands = fc.commands(
  weights.flatMap(([one, weight]) => Array.from({ length: weight }, () => one)),
  { maxCommands: 80, size: "max" },
);

describe("the life of an execution", () => {
  it(
    `is one that the design allows (${numRuns} sequences of commands)`,
    { timeout: bySize(300_000, 3_600_000) },
    async () => {
      let files = 0;
      await fc.assert(
        fc.asyncProperty(commands, async (sequence) => {
          const world = await World.open(join(folder, `${files++}.db`));
          try {
            await fc.asyncModelRun(() => ({ model: world, real: world }), sequence);
            // Everybody who asks afterwards is told the whole story.
            for (const [index, model] of world.models.entries()) {
              if (model.status === "running") continue;
              world.wait(model.id, "stream", at(model, "stream"), {});
              await world.become(index, model).catch((error: Error) => {
                throw new Error(`at the end of:\n  ${world.trace.join("\n  ")}\n${error.message}`, { cause: error });
              });
              count(`story ${model.status}`);
            }
          } finally {
            await world.close();
          }
        }),
        { numRuns, endOnFailure: false },
      );
      const by = Map.groupBy(counts.entries(), ([name]) => name.split(" ")[0]!);
      const line = [...by].map(
        ([name, all]) => `${name} ${all.map(([one, n]) => `${one.split(" ")[1]} ${n}`).join(" ")}`,
      );
      console.log(`model: ${numRuns} sequences; ${line.join("; ")}`);
    },
  );
});
