import { DatabaseSync, type StatementSync } from "node:sqlite";
import { setImmediate } from "node:timers/promises";
import { embedded } from "agentserve";
import type { Logger } from "../../../../src/core/log.ts";
import type { WorkflowDefinition } from "../../../../src/engine/definition/definition.ts";
import { createProgram } from "../../../../src/engine/attempts/live-walk.ts";
import type { ProgramOptions } from "../../../../src/engine/attempts/walk.ts";
import type { CreateWalk } from "../../../../src/engine/attempts/walk.ts";
import type { Backend } from "../../../../src/engine/contract/backend.ts";
import type { Engine } from "../../../../src/engine/contract/engine.ts";
import type { StoredEvent, LiveEvent } from "../../../../src/engine/events.ts";
import type { Runnable } from "../../../../src/workflows/executions.ts";
import { createTestLogger, type LogRecord } from "../../../harness/server.ts";
import { noRuntime } from "../../../harness/no-runtime.ts";
import { noTracer } from "../../../harness/tracer.ts";
import { inlineSleepMs } from "../make.ts";
import { count, type Book } from "./book.ts";
import type { FastClock } from "./clock.ts";

export const programOptions = (
  workflow: WorkflowDefinition,
  logger: Logger,
  hold: ProgramOptions["hold"] = () => () => {},
): ProgramOptions => ({
  workflow,
  logger,
  tracer: noTracer,
  ask: async () => "",
  createRuntime: noRuntime,
  stepTimeoutMs: 2_000_000_000, // tests leave out hours while a step runs
  loopItems: 1_000,
  loopConcurrency: 100,
  inlineSleepMs,
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
  /** The clock of the engine, where a test can move it. */
  readonly clock?: FastClock | undefined;
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
  { runningExecutions = 2, clock }: WorldOptions = {},
): Promise<World> {
  return openWorldOn(embedded({ path, retention: false }), new Durable(path), definition, book, {
    runningExecutions,
    clock,
  });
}
interface WorldOptions {
  readonly runningExecutions?: number;
  readonly clock?: FastClock | undefined;
}

export async function openWorldOn(
  backend: Backend,
  durable: Extents,
  definition: WorkflowDefinition,
  book: Book,
  { runningExecutions = 2, clock }: WorldOptions = {},
): Promise<World> {
  const logs: LogRecord[] = [];
  const logger = createTestLogger(logs);
  const held = new Set<object>();
  const hold = () => {
    const one = {};
    held.add(one);
    return () => void held.delete(one);
  };
  const limits = {
    runningExecutions,
    queuedExecutions: 100,
    waitingExecutions: 10,
    sseBufferBytes: 1_000_000,
    executionBytes: 67_108_864,
    conversationBytes: 33_554_432,
  };
  const { engine } = backend.open({ root: process.cwd(), ...limits, logger, clock });
  const program = createProgram(programOptions(definition, logger, hold));
  const runnable: Runnable = { ...program, definition, createWalk: watched(program.createWalk, book, durable) };
  await engine.open();
  await engine.recover(() => runnable);
  return {
    engine,
    runnable,
    book,
    durable,
    clock,
    complaints: () => logs.filter(({ message }) => !expected.test(message)),
    held: () => held.size,
    async close(drainMs) {
      await engine.close({ drainMs });
      durable.close();
    },
  };
}

const expected = /^(Step (attempt failed|failed|aborted)|An event does not match the schema|Execution stays suspended)/;

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
      parkedBranches: () => walk.parkedBranches(),
      acceptEvent: (filter, data) => walk.acceptEvent(filter, data),
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

/** What a client sees who comes back after every suspension and every failure, until nobody plays any more. */
export async function follow(
  { engine, book, durable }: World,
  id: string,
  signal: AbortSignal,
  isOver: () => boolean = () => true,
): Promise<unknown[]> {
  const seen: (StoredEvent | LiveEvent)[] = [];
  for (let wasOver = false; !signal.aborted && !wasOver;) {
    wasOver = isOver(); // what happened until now is read below
    for await (const event of engine.events(id, seen.length, signal)) {
      seen.push(event);
      const { seq = Infinity } = durable.of(id) ?? {};
      if (seq < seen.length) book.wrong(`event ${seen.length} of ${id} is seen when the file has ${seq}`);
    }
    await setImmediate();
  }
  return seen;
}
