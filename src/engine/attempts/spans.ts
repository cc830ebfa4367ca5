import { createHash } from "node:crypto";
import { toErrorMessage } from "../../core/error.ts";
import type { Span, SpanIds, Tracer } from "../../core/trace.ts";
import type { Execution, Transition } from "../execution.ts";
import type { EventBody } from "../events.ts";

/** The spans of one walk: the execution, and each step that runs, under the step that contains it. A replay opens none. */
export class WalkSpans {
  readonly #tracer: Tracer;
  readonly #execution: Execution;
  #root: Span | undefined;
  readonly #steps = new Map<string, Span>();
  #resumedFrom: SpanIds | undefined;
  #status: Transition["to"] = "running";
  #failure: unknown;

  constructor(tracer: Tracer, execution: Execution) {
    this.#tracer = tracer;
    this.#execution = execution;
  }

  /** The span of the step that an attempt is about to run, opened if need be. */
  open(path: string, attempt: number): Span | undefined {
    if (!this.#tracer.isOn()) return undefined;
    const known = this.#steps.get(path);
    if (known) known.set({ "agentserve.step.attempt": attempt });
    return known ?? this.#start(path);
  }

  #start(path: string): Span | undefined {
    const at = this.#execution.steps.findIndex(([other]) => other === path);
    if (at < 0) return this.#openRoot(); // the check of a workflow's result is not a step
    const [, type, depth] = this.#execution.steps[at]!;
    const outer = this.#execution.steps.slice(0, at).findLast(([, , other]) => other === depth - 1);
    const parent = outer ? (this.#steps.get(outer[0]) ?? this.#start(outer[0])) : this.#openRoot();
    const span = this.#tracer.start(() => ({
      name: `step ${path}`,
      kind: "internal",
      parent,
      attributes: {
        "agentserve.step.id": path,
        "agentserve.step.type": type,
        "agentserve.step.attempt": 1,
        "user.id": this.#execution.userId,
      },
    }));
    if (span) this.#steps.set(path, span);
    return span;
  }

  #openRoot(): Span | undefined {
    const { id, workflowId, trace, userId } = this.#execution;
    this.#root ??= this.#tracer.start(() => ({
      name: `workflow ${workflowId}`,
      kind: "internal",
      parent: trace ?? toTrace(this.#execution),
      links: this.#resumedFrom && [this.#resumedFrom],
      attributes: {
        "entity.type": "workflow",
        "entity.id": workflowId,
        "agentserve.execution.id": id,
        "user.id": userId,
      },
    }));
    return this.#root;
  }

  /** Takes the status of a transition made from outside. */
  follow(command: Transition<unknown>): void {
    this.#status = command.to;
    if (command.to === "running") this.#resumedFrom = command.trace;
  }

  /** Notes the failure of an attempt. */
  failed(path: string, error: unknown): void {
    this.#failure = error;
    this.#steps.get(path)?.set({ "error.message": toErrorMessage(error) });
  }

  /** Ends the spans of completed steps, and takes the status of a transition. */
  update(events: readonly EventBody[], transition: Transition<unknown> | undefined): void {
    if (transition) this.#status = transition.to;
    if (this.#steps.size === 0) return;
    for (const { type, from = "", status } of events) if (type === "step-complete") this.#complete(from, status);
  }

  /** Ends the span of a step, and those of branches inside it that lost a race. */
  #complete(path: string, status: unknown): void {
    const span = this.#steps.get(path);
    if (!span) return;
    const { steps } = this.#execution;
    const at = steps.findIndex(([other]) => other === path);
    for (const [inner, , depth] of steps.slice(at + 1)) {
      if (depth <= steps[at]![2]) break;
      this.#end(inner);
    }
    span.set({ "agentserve.step.status": String(status) });
    this.#end(path);
  }

  #end(path: string, error?: unknown): void {
    this.#steps.get(path)?.end(error);
    this.#steps.delete(path);
  }

  /** Ends all spans: the walk has ended or is suspended. */
  endAll(): void {
    const error = this.#status === "error" ? (this.#failure ?? new Error("The execution was cancelled")) : undefined;
    for (const path of [...this.#steps.keys()].toReversed()) this.#end(path, error);
    this.#root?.set({ "agentserve.execution.status": this.#status });
    this.#root?.end(error);
    this.#root = undefined;
  }
}

/** The trace of an execution that was started without a span: a function of the execution, so it is the same in every process. */
function toTrace({ id, startAt }: Execution): SpanIds {
  const hash = createHash("sha256").update(`${startAt} ${id}`).digest("hex");
  return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
}
