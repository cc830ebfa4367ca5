import type { JsonText } from "../../core/json.ts";
import type { Logger } from "../../core/log.ts";
import type { Tracer } from "../../core/trace.ts";
import { Attempt, type AttemptHost } from "../attempts/attempt.ts";
import type { AskAgent } from "../ask.ts";
import type { Branch, Entry, Outcome, Resumed, Retry, StepRunner, Step, WorkflowDefinition } from "../definition.ts";
import { toTransitionEvent } from "../events.ts";
import { Fibers, StepFailure } from "./fibers.ts";
import { WalkSpans } from "../attempts/spans.ts";
import type { Drive, EntryResult, Start, JournalInput, Decision, Walk } from "./walk.ts";
import type { Execution, Position, Transition } from "../execution.ts";
import type { EventBody, LiveEvent } from "../events.ts";

export interface DriveOptions {
  readonly workflow: WorkflowDefinition;
  readonly logger: Logger;
  readonly tracer: Tracer;
  /** How steps ask agents. */
  readonly ask: AskAgent;
  readonly stepTimeoutMs: number;
  readonly stepValueBytes: number;
  /** Keeps what the code needs as long as a walk is on it; returns how to let go. */
  readonly hold: () => () => void;
}

/** Walks a workflow. Its only source of order is what it is given, so the same journal gives the same walk. */
export function createDrive(options: DriveOptions): Drive {
  return (execution, live) => new Interpreter(options, execution, live);
}

class Interpreter implements Walk {
  readonly #options: DriveOptions;
  readonly #execution: Execution;
  readonly #host: AttemptHost;
  readonly #fibers: Fibers;
  readonly #spans: WalkSpans;
  readonly leave: () => void;
  #events: EventBody[] = [];
  #starts: Start[] = [];
  /** The transition that the last turn asked for. */
  #asked: Transition | undefined;
  /** The time of the last entry or transition consumed. */
  #clock: number;
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

  constructor(options: DriveOptions, execution: Execution, live: (event: LiveEvent) => void) {
    this.#options = options;
    this.#execution = execution;
    const { logger, tracer, ask, stepTimeoutMs, stepValueBytes } = options;
    this.#spans = new WalkSpans(tracer, execution);
    this.#host = { execution, logger, spans: this.#spans, ask, live, stepTimeoutMs, stepValueBytes };
    this.#clock = execution.startAt;
    this.#fibers = new Fibers((start) => this.#starts.push(start));
    const release = options.hold();
    this.leave = () => {
      this.#spans.leave();
      release();
    };
  }

  get waiting(): ReadonlyMap<string, unknown> {
    return this.#fibers.waiting;
  }

  next(taken?: JournalInput): Decision {
    if (!taken) this.#begin();
    else if ("key" in taken) {
      this.#clock = taken.settled.at;
      this.#fibers.settle(taken.key, taken.settled);
    } else this.#follow(taken.signal);
    if (!this.#held) this.#fibers.advance();
    this.#asked = this.#held ? undefined : this.#ask();
    const turn = { events: this.#events, starts: this.#starts, transition: this.#asked };
    this.#events = [];
    this.#starts = [];
    this.#spans.see(turn.events, turn.transition);
    return turn;
  }

  moved(): void {
    this.#held = true;
    this.#heldByRequest = false;
  }

  #begin(): void {
    this.#events.push({ type: "workflow-start" });
    this.#fibers.begin(this.#top(0, this.#execution.input));
  }

  /** The transition that the branches call for: all is done, or only parked branches remain. */
  #ask(): Transition | undefined {
    const at = this.#clock;
    const { ended, waiting } = this.#fibers;
    if (ended && "error" in ended) return { at, to: "error", error: ended.error };
    if (ended) return { at, to: "completed", result: ended.value };
    if (waiting.size > 0) return undefined;
    const pending = this.#fibers.parked();
    return { at, to: "suspended", reason: pending[0]!.reason, pending };
  }

  /** Takes in what somebody else decided. */
  #follow(signal: Transition): void {
    this.#clock = signal.at;
    this.#spans.follow(signal);
    if (signal.to === "running") {
      this.#resume(signal.stepId, { data: signal.data, by: signal.by });
      this.#held = false;
      return;
    }
    this.#held = this.#heldByRequest = true;
    this.#events.push(toTransitionEvent(signal));
    if (signal.to === "error") this.#fibers.kill("The execution was cancelled");
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
    const scope = this.#scope(workflow, "", this.#execution.input);
    let data = start;
    for (const [index, step] of workflow.steps.entries()) {
      if (index < from) continue;
      this.#topIndex = index;
      this.#entered[index] = data;
      ({ value: data } = yield* scope.step(step, data, index === from ? resumed : undefined));
    }
    return yield* toResult(scope, workflow, data);
  }

  #scope(workflow: WorkflowDefinition, prefix: string, input: JsonText | undefined): StepRunner {
    const scope: StepRunner = {
      step: (step, data, resumed) => this.#step(scope, prefix, step, data, resumed),
      entry: (entry) => this.#entry(workflow, prefix, input, entry),
      *fork(mode, branches): Branch<readonly Outcome[]> {
        return (yield { type: "fork", mode, branches }) as readonly Outcome[]; // as Fibers sends them
      },
      within: (id, inner, data) => this.#within(scope, `${prefix}${id}/`, id, inner, data),
    };
    return scope;
  }

  *#step(scope: StepRunner, prefix: string, step: Step, data: JsonText | undefined, resumed?: Resumed): Branch {
    const from = prefix + step.id;
    const stepIndex = this.#topIndex;
    const { type: stepType } = step;
    this.#events.push({ type: "step-start", from, stepIndex, stepType, attempt: 1 });
    const outcome = yield* step.run(scope, data, resumed);
    const { value: text, attempt = 1, skipped } = outcome;
    this.#outputs.set(from, { text, topIndex: stepIndex });
    const status = skipped ? "skipped" : "success";
    this.#events.push({ type: "step-complete", from, stepIndex, stepType, attempt, status });
    return outcome;
  }

  *#within(
    outer: StepRunner,
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
    // A step of a sub-workflow does not know where that stands: its own neighbours come first.
    const stepData = (id: string): JsonText | undefined =>
      (this.#outputs.get(prefix + id) ?? this.#outputs.get(id))?.text;
    const idempotencyKey = `${this.#execution.id}/${stable}`;
    const suspendSchema = entry.suspendSchema ?? workflow.suspendSchema;
    for (let attempt = 1; ;) {
      const key = `${stable}#${this.#count(stable)}`;
      const wait = attempt === 1 ? 0 : delay * backoff ** (attempt - 2);
      const options = {
        entry,
        key,
        path,
        delay: wait,
        input,
        resumed,
        attempt,
        idempotencyKey,
        suspendSchema,
        stepData,
      };
      // What Fibers sends to one who waits for an entry, and to one who is parked.
      const settled = (yield { type: "entry", position, attempt: new Attempt(this.#host, options) }) as EntryResult;
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

  #count(stable: string): number {
    const count = (this.#entries.get(stable) ?? 0) + 1;
    this.#entries.set(stable, count);
    return count;
  }

  position(): Position {
    const { steps } = this.#options.workflow;
    const stepIndex = Math.max(0, Math.min(this.#topIndex, steps.length - 1));
    const found = this.#fibers.position() ?? { stepIndex, stepId: steps[stepIndex]?.id ?? "" };
    return { stepIndex: found.stepIndex, stepId: found.stepId };
  }
}

const once: Retry = { attempts: 1 };
const asIs = ({ data }: { data: unknown }): unknown => data;

/** What a workflow's `result` schema makes of its last value. */
function* toResult(scope: StepRunner, { resultSchema }: WorkflowDefinition, data: JsonText | undefined): Branch {
  if (!resultSchema) return { value: data };
  return yield* scope.entry({ id: "", suffix: ">", data, code: asIs, outputSchema: resultSchema });
}
