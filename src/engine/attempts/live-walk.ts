import { toErrorMessage } from "../../core/error.ts";
import { fromJsonText, toJsonText, type JsonText } from "../../core/json.ts";
import type { WorkflowCounts } from "../../core/metrics.ts";
import { validate } from "../../core/schema.ts";
import type { Program } from "../contract/program.ts";
import { findCode, toCodeTable, type CodeTable } from "../definition/code-table.ts";
import { listSteps } from "../compare-steps.ts";
import { createConcurrency } from "../definition/concurrency.ts";
import type { DescribedStep, EventFilter, Execution, StoredError } from "../execution.ts";
import type { FailedStep } from "../execution-log.ts";
import type { AttemptPlan, AttemptResult, Decision, JournalInput } from "../walk/decision.ts";
import { Interpreter } from "../walk/interpreter.ts";
import { Attempt, type AttemptHost } from "./attempt.ts";
import { LoggedFailures } from "./failures.ts";
import { WalkSpans } from "./spans.ts";
import type { AcceptedEvent, ProgramOptions, Walk, WalkHost, WalkSlot } from "./walk.ts";

/** The code of a workflow as a backend runs it. It is made once for each version of the config. */
export function createProgram(options: ProgramOptions): Program {
  const { steps, recovery } = options.workflow;
  const concurrency = createConcurrency(options.workflow, options.logger);
  const codes = toCodeTable(options.workflow);
  const code = { codes, steps: listSteps(steps) };
  return {
    steps: code.steps,
    recovery,
    concurrency,
    createWalk: (execution, host) => new LiveWalk(options, code, execution, host),
  };
}

interface Code {
  readonly codes: CodeTable;
  readonly steps: readonly DescribedStep[];
}

/** The interpreter with effects around it: attempts that run code, spans, and the version of the config that they need. */
class LiveWalk extends Interpreter implements Walk {
  readonly #codes: CodeTable;
  readonly #spans: WalkSpans;
  readonly #host: AttemptHost;
  /** The attempts in flight, by the key of their entry. */
  readonly #attempts = new Map<string, Attempt>();
  /** Made when an attempt waits for another execution: most never do. */
  #outside: OutsideWaits | undefined;
  readonly #letGo: () => void;
  readonly #counts: WorkflowCounts["attempts"] | undefined;

  constructor(options: ProgramOptions, { codes, steps }: Code, execution: Execution, host: WalkHost) {
    super(options.workflow, codes, execution);
    const spans = new WalkSpans(options.tracer, execution, steps);
    const waitOutside: AttemptHost["waitOutside"] = (attempt, work) =>
      (this.#outside ??= new OutsideWaits(host.slot, this.#attempts)).wait(attempt, work);
    this.#codes = codes;
    this.#spans = spans;
    this.#host = { ...options, ...host, execution, spans, failures: new LoggedFailures(), waitOutside, walk: this };
    this.#letGo = options.hold();
    this.#counts = options.metrics?.workflow(options.workflow.id).attempts;
  }

  override next(input?: JournalInput): Decision {
    if (input && "command" in input) this.#spans.follow(input.command);
    if (input && "wake" in input) this.#spans.continue();
    const decision = super.next(input);
    for (const { key, reason } of decision.aborts) this.#attempts.get(key)?.abort(reason);
    this.#spans.update(decision.events, decision.transition);
    if (input && "key" in input && "error" in input.result) this.#spans.endIteration(input.key, this.waitingKeys());
    return decision;
  }

  async acceptEvent({ step }: EventFilter, data: JsonText | undefined): Promise<AcceptedEvent> {
    const { outputSchema, isRedacted } = findCode(this.#codes, step, "");
    if (!outputSchema) return { value: data };
    try {
      const result = await validate(outputSchema, fromJsonText(data));
      if ("problem" in result) return { problem: isRedacted ? "(redacted)" : result.problem };
      return { value: toJsonText(result.value, "event", this.#host.stepValueBytes) };
    } catch (error) {
      return { problem: isRedacted ? "(redacted)" : toErrorMessage(error) };
    }
  }

  failedStep({ message }: StoredError): FailedStep {
    const path = this.#host.failures.find(message);
    return { stepId: path ?? this.position().stepId, isLogged: path !== undefined };
  }

  start(plan: AttemptPlan, ended: (result: AttemptResult) => void): void {
    const code = findCode(this.#codes, plan.codePath, plan.suffix);
    const attempt = new Attempt(this.#host, plan, code);
    this.#attempts.set(plan.key, attempt);
    const onEnd = (result: AttemptResult): void => {
      this.#attempts.delete(plan.key);
      if (this.#counts) this.#counts[attempt.abortReason === undefined ? toOutcome(result) : "aborted"]++;
      this.#outside?.lendIfIdle();
      ended(result);
    };
    const entering = this.#outside?.enter();
    if (entering) void entering.then(() => this.#attempts.get(plan.key) === attempt && attempt.run(onEnd));
    else attempt.run(onEnd);
  }

  get inFlight(): number {
    return this.#attempts.size;
  }

  release(reason: string): void {
    for (const attempt of this.#attempts.values()) attempt.abandon(reason);
    if (this.#counts) this.#counts.aborted += this.#attempts.size;
    this.#attempts.clear();
    this.#spans.endAll();
    this.#letGo();
  }
}

const toOutcome = (result: AttemptResult): "success" | "error" | "suspended" =>
  "error" in result ? "error" : "suspended" in result ? "suspended" : "success";

/** An attempt in flight. */
interface InFlight {
  readonly plan: { readonly key: string };
}

/**
 * The attempts of one walk that wait for other executions.
 *
 * O1. While all attempts in flight do so, the walk has lent its slot: to those that it waits for, among others.
 * O2. Code of the walk continues after a wait only when it has its slot again. Code beside a wait of the same attempt counts
 *     as waiting: its promises do not tell.
 */
class OutsideWaits {
  readonly #slot: WalkSlot;
  /** The attempts in flight. */
  readonly #attempts: ReadonlyMap<string, InFlight>;
  /** The wait count of each attempt. */
  #waits: Map<InFlight, number> | undefined;
  #isLent = false;
  #entering: Promise<void> | undefined;

  constructor(slot: WalkSlot, attempts: ReadonlyMap<string, InFlight>) {
    this.#slot = slot;
    this.#attempts = attempts;
  }

  /** Settles like `work`, which waits for another execution, once the code may run again. */
  async wait<T>(attempt: InFlight, work: () => Promise<T>): Promise<T> {
    this.#count(attempt, 1);
    this.lendIfIdle();
    try {
      return await work();
    } finally {
      this.#count(attempt, -1);
      // The code of an attempt that has timed out, or was aborted, runs without a slot.
      if (this.#attempts.get(attempt.plan.key) === attempt) await this.enter();
      setImmediate(() => this.lendIfIdle()); // its code may wait for others still
    }
  }

  #count(attempt: InFlight, change: 1 | -1): void {
    const count = (this.#waits?.get(attempt) ?? 0) + change;
    if (count === 0) this.#waits?.delete(attempt);
    else (this.#waits ??= new Map()).set(attempt, count);
  }

  /** An attempt began to wait, or ended. */
  lendIfIdle(): void {
    if (this.#isLent || !this.#waits?.size || this.#attempts.size === 0) return;
    for (const attempt of this.#attempts.values()) if (!this.#waits.has(attempt)) return;
    this.#isLent = true;
    this.#slot.lend();
  }

  /** Resolves when code may run; undefined if it may run now. */
  enter(): Promise<void> | undefined {
    if (!this.#isLent) return undefined;
    return (this.#entering ??= this.#regain());
  }

  async #regain(): Promise<void> {
    await this.#slot.regain();
    this.#isLent = false;
    this.#entering = undefined;
    setImmediate(() => this.lendIfIdle()); // the attempt that asked for it may be over
  }
}
