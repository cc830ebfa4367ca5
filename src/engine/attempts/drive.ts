import type { Logger } from "../../core/log.ts";
import type { Tracer } from "../../core/trace.ts";
import type { AskAgent } from "../ask.ts";
import type { WorkflowDefinition } from "../definition.ts";
import { findEntry, toEntryTable, type EntryTable } from "../entries.ts";
import type { Execution, Position } from "../execution.ts";
import { Interpreter } from "../walk/interpreter.ts";
import type { AttemptPlan, AttemptResult, Decision, Drive, JournalInput, Walk, WalkHost } from "../walk/walk.ts";
import { Attempt, type AttemptHost } from "./attempt.ts";
import { WalkSpans } from "./spans.ts";

export interface DriveOptions {
  readonly workflow: WorkflowDefinition;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** The way in which steps ask agents. */
  readonly ask: AskAgent;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
  /** Holds the version of the config for as long as a walk is on its code. Returns the release. */
  readonly hold: () => () => void;
}

export function createDrive(options: DriveOptions): Drive {
  const entries = toEntryTable(options.workflow);
  return (execution, host) => new LiveWalk(options, entries, execution, host);
}

/** The interpreter with effects around it: attempts that run code, spans, and the version of the config that they need. */
class LiveWalk implements Walk {
  readonly #interpreter: Interpreter;
  readonly #entries: EntryTable;
  readonly #spans: WalkSpans;
  readonly #host: AttemptHost;
  /** The attempts in flight, by the key of their entry. */
  readonly #attempts = new Map<string, Attempt>();
  readonly #release: () => void;

  constructor(options: DriveOptions, entries: EntryTable, execution: Execution, { readRow, publishLive }: WalkHost) {
    const { workflow, logger, tracer, ask, stepTimeoutMs, stepValueBytes, hold } = options;
    const interpreter = new Interpreter(workflow, entries, execution);
    this.#interpreter = interpreter;
    this.#entries = entries;
    this.#spans = new WalkSpans(tracer, execution);
    this.#host = {
      execution,
      logger,
      spans: this.#spans,
      ask,
      stepTimeoutMs,
      stepValueBytes,
      readRow,
      publishLive,
      output: (path, stepId) => interpreter.output(path, stepId),
    };
    this.#release = hold();
  }

  get waiting(): ReadonlyMap<string, unknown> {
    return this.#interpreter.waiting;
  }

  next(input?: JournalInput): Decision {
    if (input && "command" in input) this.#spans.follow(input.command);
    const decision = this.#interpreter.next(input);
    for (const { key, reason } of decision.aborts) this.#attempts.get(key)?.abort(reason);
    this.#spans.see(decision.events, decision.transition);
    return decision;
  }

  confirmTransition(): void {
    this.#interpreter.confirmTransition();
  }

  position(): Position {
    return this.#interpreter.position();
  }

  start(plan: AttemptPlan, ended: (result: AttemptResult) => void): void {
    const attempt = new Attempt(this.#host, plan, findEntry(this.#entries, plan.path, plan.suffix));
    this.#attempts.set(plan.key, attempt);
    attempt.run((result) => {
      this.#attempts.delete(plan.key);
      ended(result);
    });
  }

  leave(reason: string): void {
    for (const attempt of this.#attempts.values()) attempt.abandon(reason);
    this.#attempts.clear();
    this.#spans.leave();
    this.#release();
  }
}
