import type { JsonText } from "../core/json.ts";
import type { Logger } from "../core/log.ts";
import type { LazyAbort } from "./abort.ts";
import { runAttempt } from "./attempt.ts";
import type { Branch, Entry, Outcome, Resumed, Retry, Scope, Step, WorkflowDefinition } from "./definition.ts";
import { createEvent, toTransitionEvent } from "./events.ts";
import { Fibers, StepFailure } from "./fibers.ts";
import type { Drive, LifecycleEvent, Position, Run, Settled, Transition } from "./types.ts";

export interface DriveOptions {
  readonly workflow: WorkflowDefinition;
  readonly logger: Logger;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
}

/** Walks a workflow over a run. Its only source of order is `run.select`, so the same journal gives the same walk. */
export function createDrive(options: DriveOptions): Drive {
  return (run) => new Interpreter(options, run).drive();
}

class Interpreter {
  readonly #options: DriveOptions;
  readonly #run: Run;
  readonly #fibers: Fibers;
  /** The time of the last entry or transition consumed. */
  #clock: number;
  #seq = 0;
  /** How often somebody went back. It stands in the journal's keys from there on, and so in idempotency keys. */
  #generation = 0;
  #topIndex = 0;
  /** What each top-level step was given. */
  readonly #entered: (JsonText | undefined)[] = [];
  readonly #outputs = new Map<string, { text: JsonText | undefined; topIndex: number }>();
  readonly #entries = new Map<string, number>();
  /** Suspended: entries in flight are still taken in, but nothing goes on. */
  #held = false;
  #heldByRequest = false;

  constructor(options: DriveOptions, run: Run) {
    this.#options = options;
    this.#run = run;
    this.#clock = run.execution.startAt;
    this.#fibers = new Fibers((key, attempt, delay) => run.start(key, attempt, delay));
  }

  async drive(): Promise<void> {
    this.#emit("workflow-start");
    this.#fibers.begin(this.#top(0, this.#run.execution.input));
    for (;;) {
      if (!this.#held) {
        this.#fibers.advance();
        const next = this.#next();
        // Lost: somebody else made a transition first, and select will say which.
        if (next && (await this.#move(next)) && next.to !== "suspended") return;
      }
      const selected = await this.#run.select(this.#fibers.waiting, () => this.#position());
      if (!selected) return;
      if ("key" in selected) {
        this.#clock = selected.settled.at;
        this.#fibers.settle(selected.key, selected.settled);
      } else if (this.#follow(selected.signal)) return;
    }
  }

  /** The transition that the branches call for: all is done, or only parked branches remain. */
  #next(): Transition | undefined {
    const at = this.#clock;
    const { ended, waiting } = this.#fibers;
    if (ended && "error" in ended) return { at, to: "error", error: ended.error };
    if (ended) return { at, to: "completed", result: ended.value };
    if (waiting.size > 0) return undefined;
    const pending = this.#fibers.parked();
    return { at, to: "suspended", reason: pending[0]!.reason, pending };
  }

  async #move(next: Transition): Promise<boolean> {
    const event = toTransitionEvent(this.#run.execution.id, this.#seq + 1, next);
    if (!(await this.#run.transition(next, event))) return false;
    this.#seq = event.seq;
    this.#held = next.to === "suspended";
    this.#heldByRequest = false;
    return true;
  }

  /** Takes in what somebody else decided; true when that was the end. */
  #follow(signal: Transition): boolean {
    const { id } = this.#run.execution;
    this.#clock = signal.at;
    if (signal.to === "running") {
      this.#resume(signal.stepId, { data: signal.data, by: signal.by });
      this.#held = false;
      return false;
    }
    if (signal.to === "suspended") {
      this.#held = this.#heldByRequest = true;
      // Not where it stood when somebody asked: entries recorded before that have been taken in since.
      this.#send(toTransitionEvent(id, this.#seq + 1, { ...signal, position: this.#position() }));
      return false;
    }
    this.#fibers.kill("The execution was cancelled");
    this.#send(toTransitionEvent(id, this.#seq + 1, signal));
    return true;
  }

  /** A parked branch goes on, or an earlier step begins again. After a suspension by request everything just goes on. */
  #resume(stepId: string | undefined, resumed: Resumed): void {
    const parked = this.#heldByRequest ? [] : this.#fibers.parked();
    const target = stepId === undefined ? parked[0] : parked.find((one) => one.stepId === stepId);
    if (target) return this.#fibers.resume(target, resumed);
    const index = this.#options.workflow.steps.findIndex(({ id }) => id === stepId);
    if (index >= 0 && index in this.#entered) this.#goBack(index, resumed);
  }

  /** Later outputs are forgotten; what runs from here on is new to the journal. */
  #goBack(index: number, resumed: Resumed): void {
    this.#generation++;
    for (const [path, { topIndex }] of this.#outputs) if (topIndex >= index) this.#outputs.delete(path);
    this.#fibers.begin(this.#top(index, this.#entered[index], resumed));
  }

  *#top(from: number, start: JsonText | undefined, resumed?: Resumed): Branch {
    const { workflow } = this.#options;
    const scope = this.#scope(workflow, "", this.#run.execution.input);
    let data = start;
    for (const [index, step] of workflow.steps.entries()) {
      if (index < from) continue;
      this.#topIndex = index;
      this.#entered[index] = data;
      ({ value: data } = yield* scope.step(step, data, index === from ? resumed : undefined));
    }
    return yield* toResult(scope, workflow, data);
  }

  #scope(workflow: WorkflowDefinition, prefix: string, input: JsonText | undefined): Scope {
    const scope: Scope = {
      step: (step, data, resumed) => this.#step(scope, prefix, step, data, resumed),
      entry: (entry) => this.#entry(workflow, prefix, input, entry),
      *fork(mode, branches): Branch<readonly Outcome[]> {
        return (yield { type: "fork", mode, branches }) as readonly Outcome[]; // as Fibers sends them
      },
      within: (id, inner, data) => this.#within(scope, `${prefix}${id}/`, id, inner, data),
    };
    return scope;
  }

  *#step(scope: Scope, prefix: string, step: Step, data: JsonText | undefined, resumed?: Resumed): Branch {
    const from = prefix + step.id;
    const common = { from, stepIndex: this.#topIndex, stepType: step.type };
    this.#emit("step-start", { ...common, attempt: 1 });
    const outcome = yield* step.run(scope, data, resumed);
    this.#outputs.set(from, { text: outcome.value, topIndex: this.#topIndex });
    const status = outcome.skipped ? "skipped" : "success";
    this.#emit("step-complete", { ...common, attempt: outcome.attempt ?? 1, status });
    return outcome;
  }

  *#within(
    outer: Scope,
    prefix: string,
    id: string,
    workflow: WorkflowDefinition,
    start: JsonText | undefined,
  ): Branch {
    let data = start;
    const { inputSchema } = workflow;
    if (inputSchema)
      ({ value: data } = yield* outer.entry({ id, suffix: "<", data, code: asIs, outputSchema: inputSchema }));
    const scope = this.#scope(workflow, prefix, data);
    for (const step of workflow.steps) ({ value: data } = yield* scope.step(step, data));
    return yield* toResult(scope, workflow, data);
  }

  *#entry(workflow: WorkflowDefinition, prefix: string, input: JsonText | undefined, entry: Entry): Branch {
    const path = prefix + entry.id;
    const stable = `${path}${entry.suffix ?? ""}${this.#generation ? `@${this.#generation}` : ""}`;
    const position = { stepIndex: this.#topIndex, stepId: path };
    const { attempts, delay = 0, backoff = 1 } = entry.retry ?? (entry.suffix ? once : (workflow.retry ?? once));
    let { resumed } = entry;
    for (let attempt = 1; ;) {
      const key = `${stable}#${this.#count(stable)}`;
      const wait = attempt === 1 ? 0 : delay * backoff ** (attempt - 2);
      const run = this.#attempt(workflow, prefix, input, entry, { path, stable, attempt, resumed });
      // What Fibers sends to one who waits for an entry, and to one who is parked.
      const settled = (yield { type: "entry", key, position, delay: wait, attempt: run }) as Settled;
      if ("suspended" in settled) {
        resumed = (yield { type: "park", parked: { ...position, ...settled.suspended } }) as Resumed;
        attempt = 1;
      } else if (!("error" in settled)) {
        return { value: settled.value, attempt };
      } else if (attempt++ >= attempts) {
        throw new StepFailure(settled.error);
      }
    }
  }

  #attempt(
    workflow: WorkflowDefinition,
    prefix: string,
    input: JsonText | undefined,
    entry: Entry,
    { path, stable, attempt, resumed }: { path: string; stable: string; attempt: number; resumed: Resumed | undefined },
  ): (abort: LazyAbort) => Promise<Settled> {
    const { execution } = this.#run;
    const { logger, stepTimeoutMs, stepValueBytes } = this.#options;
    return (abort) =>
      runAttempt({
        entry,
        path,
        input,
        abort,
        attempt,
        resumed,
        execution,
        idempotencyKey: `${execution.id}/${stable}`,
        suspendSchema: entry.suspendSchema ?? workflow.suspendSchema,
        // A step of a sub-workflow does not know where that stands: its own neighbours come first.
        stepData: (id) => (this.#outputs.get(prefix + id) ?? this.#outputs.get(id))?.text,
        live: (event) => this.#run.live(event),
        logger,
        timeoutMs: entry.timeout ?? stepTimeoutMs,
        valueBytes: stepValueBytes,
      });
  }

  #count(stable: string): number {
    const count = (this.#entries.get(stable) ?? 0) + 1;
    this.#entries.set(stable, count);
    return count;
  }

  /** The step in flight, else the next one. */
  #position(): Position {
    const { steps } = this.#options.workflow;
    const stepIndex = Math.max(0, Math.min(this.#topIndex, steps.length - 1));
    const found = this.#fibers.position() ?? { stepIndex, stepId: steps[stepIndex]?.id ?? "" };
    return { stepIndex: found.stepIndex, stepId: found.stepId };
  }

  #emit(type: string, details?: Record<string, unknown>): void {
    this.#send(createEvent(this.#run.execution.id, this.#seq + 1, this.#clock, type, details));
  }

  #send(event: LifecycleEvent): void {
    this.#seq = event.seq;
    this.#run.emit(event);
  }
}

const once: Retry = { attempts: 1 };
const asIs = ({ data }: { data: unknown }): unknown => data;

/** What a workflow's `result` schema makes of its last value. */
function* toResult(scope: Scope, { resultSchema }: WorkflowDefinition, data: JsonText | undefined): Branch {
  if (!resultSchema) return { value: data };
  return yield* scope.entry({ id: "", suffix: ">", data, code: asIs, outputSchema: resultSchema });
}
