import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { expect } from "vitest";
import { embedded } from "agentserve";
import { ServeError } from "../../../src/core/error.ts";
import type { Logger } from "../../../src/core/log.ts";
import type { WorkflowDefinition } from "../../../src/engine/definition.ts";
import { createProgram, type ProgramOptions } from "../../../src/engine/attempts/live-walk.ts";
import type { CreateWalk } from "../../../src/engine/attempts/walk.ts";
import type { Backend, Engine } from "../../../src/engine/backend.ts";
import type { ExecutionState, Transition } from "../../../src/engine/execution.ts";
import type { StoredEvent, LiveEvent } from "../../../src/engine/events.ts";
import { resume, type Runnable } from "../../../src/workflows/executions.ts";
import { createTestLogger, type LogRecord } from "../../harness/server.ts";
import { answerOf, pause, type Notes } from "./make.ts";
import { noTracer } from "../../harness/tracer.ts";
import { patienceMs } from "../../harness/patience.ts";

/** Numbers that follow from a seed. */
export class Luck {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }
  pick(below: number): number {
    return Math.floor(this.next() * below);
  }
  chance(part: number): boolean {
    return this.next() < part;
  }
}

/** What the code of the steps did, and what went wrong in it. */
export class Book implements Notes {
  readonly problems: string[] = [];
  /** Of each execution, how often code of its steps began. */
  readonly begun: Map<string, number> = new Map();
  /** How often code began under an idempotency key. */
  readonly byIdempotencyKey: Map<string, number> = new Map();
  /** How often an entry was launched, by execution and key of the journal. */
  readonly byEntry: Map<string, number> = new Map();
  /** Entries that ended when nobody waited for them any more. A new set for each life: some end in the next one. */
  late: Set<string> = new Set();

  called(executionId: string, idempotencyKey: string): void {
    count(this.begun, executionId);
    count(this.byIdempotencyKey, idempotencyKey);
  }
  wrong(message: string): void {
    this.problems.push(message);
  }
  clear(): void {
    for (const map of [this.begun, this.byIdempotencyKey, this.byEntry]) map.clear();
    this.late = new Set();
  }
}

export const programOptions = (
  workflow: WorkflowDefinition,
  logger: Logger,
  hold: ProgramOptions["hold"] = () => () => {},
): ProgramOptions => ({
  workflow,
  logger,
  tracer: noTracer,
  ask: async () => "",
  stepTimeoutMs: 5_000,
  stepValueBytes: 100_000,
  hold,
});

/** A file, open. */
export interface World {
  readonly engine: Engine;
  readonly runnable: Runnable;
  readonly book: Book;
  readonly durable: Extents;
  /** A suspend is answered before the code hears of it: a step may still begin. */
  readonly hearsLate?: boolean;
  /** The engine's own complaints: none of them is expected. */
  complaints(): LogRecord[];
  /** How many walks have begun and were not let go. */
  held(): number;
  close(drainMs: number): Promise<void>;
}

/** Fewer run at once than are played: some wait for their turn. */
export async function openWorld(
  path: string,
  definition: WorkflowDefinition,
  book: Book,
  runningExecutions = 2,
): Promise<World> {
  return openWorldOn(embedded({ path }), new Durable(path), definition, book, runningExecutions);
}

export async function openWorldOn(
  backend: Backend,
  durable: Extents,
  definition: WorkflowDefinition,
  book: Book,
  runningExecutions = 2,
): Promise<World> {
  const logs: LogRecord[] = [];
  const logger = createTestLogger(logs);
  const held = new Set<object>();
  const hold = () => {
    const one = {};
    held.add(one);
    return () => void held.delete(one);
  };
  const limits = { runningExecutions, queuedExecutions: 100, sseBufferBytes: 1_000_000, executionBytes: 67_108_864 };
  const { engine } = backend.open({ root: process.cwd(), ...limits, logger });
  const program = createProgram(programOptions(definition, logger, hold));
  const runnable: Runnable = { ...program, definition, createWalk: watched(program.createWalk, book, durable) };
  await engine.open();
  await engine.recover(() => runnable);
  return {
    engine,
    runnable,
    book,
    durable,
    complaints: () => logs.filter(({ message }) => !/^Step (attempt failed|failed|aborted)/.test(message)),
    held: () => held.size,
    async close(drainMs) {
      await engine.close({ drainMs });
      durable.close();
    },
  };
}

interface Extent {
  readonly status: string;
  readonly epoch: number;
  readonly ended: number | null;
  readonly rows: number;
  readonly seq: number;
}
/** How far executions have come in the store, as somebody else sees it; undefined where nobody can look. */
export interface Extents {
  of(id: string): Extent | undefined;
  close(): void;
}
export const unknownExtents: Extents = { of: () => undefined, close() {} };

/** How far an execution has come in the file, as somebody else sees it. */
class Durable implements Extents {
  readonly #path: string;
  #database: DatabaseSync | undefined;
  #extent: StatementSync | undefined;

  constructor(path: string) {
    this.#path = path;
  }

  of(id: string): Extent {
    this.#extent ??= this.#open(); // only now: it is the engine that makes the file
    const found = this.#extent.get(id) as unknown as Extent | undefined; // as it was asked for
    return found ?? { status: "none", epoch: 0, ended: null, rows: 0, seq: 0 };
  }
  #open(): StatementSync {
    this.#database = new DatabaseSync(this.#path);
    this.#database.exec("pragma synchronous = off"); // the last to close the file would wait for the disk
    return this.#database.prepare(`
      select status, epoch, ended, count(n) as rows, coalesce(max(journal.seq), executions.seq) as seq
        from executions left join journal using (number) where id = ? group by number`);
  }
  close(): void {
    this.#database?.close();
  }
}

/** The same walks, with every launch of an attempt written down. */
function watched(createWalk: CreateWalk, book: Book, durable: Extents): CreateWalk {
  const { late } = book;
  return (execution, host) => {
    const walk = createWalk(execution, host);
    let inputs = 0;
    /** The number of rows that the plan of an attempt follows from, by its key. */
    const follows = new Map<string, number>();
    return {
      get inFlight() {
        return walk.inFlight;
      },
      isWaitingFor: (key) => walk.isWaitingFor(key),
      next(input) {
        const decision = walk.next(input);
        if (input) inputs++;
        for (const { key } of decision.starts) follows.set(key, inputs);
        return decision;
      },
      start(plan, ended) {
        const { key } = plan;
        const rows = follows.get(key)!;
        const entry = `${execution.id}/${key}`;
        count(book.byEntry, entry);
        const found = durable.of(execution.id);
        if (found && (found.status !== "running" || found.rows < rows))
          book.wrong(`${entry} follows from row ${rows} and is launched when the file has ${JSON.stringify(found)}`);
        walk.start(plan, (result) => {
          if (!walk.isWaitingFor(key)) late.add(entry);
          ended(result);
        });
      },
      failedStep: (error) => walk.failedStep(error),
      position: () => walk.position(),
      confirmTransition: () => walk.confirmTransition(),
      release: (reason) => walk.release(reason),
    };
  };
}

/** What a client sees who comes back after every suspension, until the end. */
export async function follow({ engine, book, durable }: World, id: string, signal: AbortSignal): Promise<unknown[]> {
  const seen: (StoredEvent | LiveEvent)[] = [];
  while (!signal.aborted && !/^workflow-(complete|error)$/.test(seen.at(-1)?.type ?? "")) {
    for await (const event of engine.events(id, seen.length, signal)) {
      seen.push(event);
      const { seq = Infinity } = durable.of(id) ?? {};
      if (seq < seen.length) book.wrong(`event ${seen.length} of ${id} is seen when the file has ${seq}`);
    }
    await setImmediate();
  }
  return seen;
}

export interface Tally {
  completed: number;
  error: number;
  cancelled: number;
  suspensions: number;
  external: number;
  wentBack: number;
  twoAtOnce: number;
  rows: number;
  events: number;
}

/** Suspends, resumes and goes back at random, until the execution has ended. */
export async function play(world: World, id: string, luck: Luck, tally: Tally, cancels: boolean): Promise<void> {
  const { engine, book } = world;
  const expectDurable = ({ epoch }: ExecutionState): void => {
    const found = world.durable.of(id);
    if (!found) return;
    expect(found.epoch, "transitions in the file when one is answered").toBeGreaterThanOrEqual(epoch);
    expect(found.ended !== null, `ended, when it is ${found.status}`).toBe(/completed|error/.test(found.status));
  };
  let backs = 0;
  for (let round = 0; ; round++) {
    expect(round, "resumes after which it has not ended").toBeLessThan(500);
    if (round < 8 && luck.chance(0.5)) {
      await pause(luck.pick(14));
      if (cancels && luck.chance(0.15)) await engine.cancel(id, "no more");
      const answered = await engine.suspend(id, "outside");
      if (answered) {
        tally.external++;
        const begun = book.begun.get(id);
        expectDurable(answered);
        expect(answered.status).toBe("suspended");
        if (luck.chance(0.7)) await pause(luck.pick(14));
        expect((await engine.state(id))?.epoch, "nobody but us resumes").toBe(answered.epoch);
        if (!world.hearsLate) expect(book.begun.get(id), "a step began after the suspend was answered").toBe(begun);
      }
    }
    const state = await settle(world, id).catch(async (cause) => {
      const stuck = JSON.stringify({ ...(await engine.state(id)), complaints: world.complaints() });
      throw new Error(`it neither ends nor suspends: ${stuck}`, { cause });
    });
    expectDurable(state);
    if (state.status !== "suspended") {
      if (state.last && "cancellation" in state.last) tally.cancelled++;
      else tally[state.status as "completed" | "error"]++;
      return;
    }
    if (cancels && luck.chance(0.1)) {
      const resumes = luck.chance(0.5) ? [resume(engine, world.runnable, state, toGoOn(state, luck))] : [];
      const [cancelled] = await Promise.allSettled([engine.cancel(id, "no more"), ...resumes]);
      expect(cancelled, "a cancel, perhaps at once with a resume").toMatchObject({ value: { status: "error" } });
      continue;
    }
    const isOwn = pendingOf(state).length > 0;
    if (isOwn) tally.suspensions++;
    const goesBack = backs < 3 && luck.chance(0.2);
    const asked = goesBack ? toGoBack(world, state, luck) : toGoOn(state, luck);
    if (goesBack && backs++ >= 0) tally.wentBack++;
    const attempts = [resume(engine, world.runnable, state, asked)];
    if (luck.chance(0.5)) attempts.push(resume(engine, world.runnable, state, toGoOn(state, luck)));
    tally.twoAtOnce += attempts.length - 1;
    const answers = await Promise.allSettled(attempts);
    expect(answers.filter(({ status }) => status === "fulfilled").length, "exactly one resume wins").toBe(1);
    for (const answer of answers) {
      if (answer.status === "fulfilled") expectDurable(answer.value);
      else {
        expect(answer.reason).toBeInstanceOf(ServeError);
        expect(answer.reason.status).toBe(404);
      }
    }
  }
}

/** The state at the next suspension or end. Where callers hear late, it may be one that is over. */
async function settle({ engine, hearsLate }: World, id: string): Promise<ExecutionState> {
  const signal = AbortSignal.timeout(patienceMs);
  for (;;) {
    const state = await engine.settled(id, -1, signal);
    if (!hearsLate || (await engine.state(id))?.epoch === state.epoch) return state;
  }
}

interface Asked {
  readonly stepId?: string;
  readonly resumeData: unknown;
}

function toGoOn(state: ExecutionState, luck: Luck): Asked {
  const pending = pendingOf(state);
  if (pending.length === 0) return { resumeData: "neither checked nor used" };
  for (const { stepId, reason, data } of pending)
    expect({ reason, data }).toEqual({ reason: `ask ${stepId}`, data: JSON.stringify({ ask: stepId }) });
  if (luck.chance(0.3)) return { resumeData: answerOf(pending[0]!.stepId) };
  const { stepId } = pending[luck.pick(pending.length)]!;
  return { stepId, resumeData: answerOf(stepId) };
}

function toGoBack({ runnable }: World, { last }: ExecutionState, luck: Luck): Asked {
  const { pending = [], position }: Partial<Transition & { to: "suspended" }> = last?.to === "suspended" ? last : {};
  const at = pending[0]?.stepIndex ?? position?.stepIndex ?? 0;
  const stepId = runnable.definition.steps[luck.pick(at + 1)]!.id;
  return { stepId, resumeData: answerOf(stepId) };
}

function pendingOf({ last }: ExecutionState) {
  return last?.to === "suspended" ? last.pending : [];
}

function count(map: Map<string, number>, key: string): void {
  map.set(key, (map.get(key) ?? 0) + 1);
}
