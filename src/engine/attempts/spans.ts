import { createHash } from "node:crypto";
import { toErrorMessage } from "../../core/error.ts";
import type { Span, SpanIds, Tracer } from "../../core/trace.ts";
import type { DescribedStep, Execution, Transition } from "../execution.ts";
import type { EventBody } from "../events.ts";
import { StepTree } from "../steps/step-tree.ts";
import { hasOwnPaths } from "../definition/step-traits.ts";
import { fromEntryKey, prefixOf } from "../walk/journal-keys.ts";

/** The spans of one walk: the execution, and each step that runs, under the step that contains it. A replay opens none. */
export class WalkSpans {
  readonly #tracer: Tracer;
  readonly #execution: Execution;
  readonly #definition: readonly DescribedStep[];
  #root: Span | undefined;
  /** The open spans of steps, by path. A step is behind the one that contains it. */
  #steps: Map<string, OpenSpan> | undefined;
  #tree: StepTree | undefined;
  #resumedFrom: SpanIds | undefined;
  #status: Transition["to"] = "running";
  #failure: unknown;

  constructor(tracer: Tracer, execution: Execution, definition: readonly DescribedStep[]) {
    this.#tracer = tracer;
    this.#execution = execution;
    this.#definition = definition;
  }

  /** The span of the step that an attempt is about to run, opened if need be. */
  open(path: string, attempt: number): Span | undefined {
    if (!this.#tracer.isOn()) return undefined;
    const known = this.#steps?.get(path);
    if (known) known.span.set({ "agentserve.step.attempt": attempt });
    return known?.span ?? this.#start(path);
  }

  #start(path: string): Span | undefined {
    this.#tree ??= new StepTree(this.#definition);
    const found = this.#tree.parse(path);
    if (!found) return this.#openRoot(); // the check of a workflow's result is not a step
    const { node, iteration, loop } = found;
    if (iteration !== undefined) return this.#find(loop!); // the code of a loop that runs for each iteration
    const prefix = prefixOf(path);
    const outer = !node.parent
      ? undefined
      : !hasOwnPaths(node.parent.traits)
        ? prefix + node.parent.stepId
        : node.parent.traits.shape === "child"
          ? prefix.slice(0, -1)
          : loop;
    const parent = outer === undefined ? this.#openRoot() : this.#find(outer);
    const span = this.#tracer.start(() => ({
      name: `step ${path}`,
      kind: "internal",
      parent,
      attributes: {
        "agentserve.step.id": path,
        "agentserve.step.type": node.type,
        "agentserve.step.attempt": 1,
        "user.id": this.#execution.userId,
      },
    }));
    if (span) (this.#steps ??= new Map()).set(path, { span, outer });
    return span;
  }

  #find(path: string): Span | undefined {
    return this.#steps?.get(path)?.span ?? this.#start(path);
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

  /** Takes the status of a command. */
  follow(command: Transition<unknown>): void {
    this.#status = command.to;
    if (command.to === "running") this.#resumedFrom = command.trace;
  }

  /** Takes the status after a wake. */
  continue(): void {
    this.#status = "running";
  }

  /** Notes the failure of an attempt. */
  failed(path: string, error: unknown): void {
    this.#failure = error;
    this.#steps?.get(path)?.span.set({ "error.message": toErrorMessage(error) });
  }

  /** Ends the spans of completed steps, and takes the status of a transition. */
  update(events: readonly EventBody[], transition: Transition<unknown> | undefined): void {
    if (transition) this.#status = transition.to;
    if (!this.#steps?.size) return;
    for (const { type, from = "", status } of events) if (type === "step-complete") this.#complete(from, status);
  }

  /** Ends the span of a step, and the spans of inner branches that lost a race. */
  #complete(path: string, status: unknown): void {
    const found = this.#steps?.get(path);
    if (!found) return;
    for (const inner of this.#inside(path)) this.#end(inner);
    found.span.set({ "agentserve.step.status": String(status) });
    this.#end(path);
  }

  /** The open spans inside a step. Only few are open at a time: those that began after it are looked through. */
  #inside(path: string): string[] {
    const found = new Set([path]);
    for (const [inner, { outer }] of this.#steps ?? []) if (outer !== undefined && found.has(outer)) found.add(inner);
    found.delete(path);
    return [...found].toReversed();
  }

  /**
   * Ends the spans of an iteration that a failure ended: its loop collects failures, and no event tells of it. `waiting`
   * are the keys of what branches still wait for.
   */
  endIteration(key: string, waiting: Iterable<string>): void {
    if (!this.#steps?.size) return;
    const keys = [...waiting].map((one) => one.replace(/^~/, ""));
    for (let path = fromEntryKey(key)?.path; path !== undefined;) {
      const loop = this.#tree?.parse(path)?.loop;
      if (loop === undefined) return;
      const number = path.slice(loop.length + 1).split("/", 1)[0]!;
      const isInside = (other: string): boolean => other.startsWith(`${loop}/${number}/`);
      if (keys.some(isInside)) return;
      for (const inner of [...this.#steps.keys()].filter(isInside).toReversed()) this.#end(inner, this.#failure);
      path = loop;
    }
  }

  #end(path: string, error?: unknown): void {
    this.#steps?.get(path)?.span.end(error);
    this.#steps?.delete(path);
  }

  /** Ends all spans: the walk ended or is suspended. */
  endAll(): void {
    const error = this.#status === "error" ? (this.#failure ?? new Error("The execution was cancelled")) : undefined;
    for (const path of [...(this.#steps?.keys() ?? [])].toReversed()) this.#end(path, error);
    this.#root?.set({ "agentserve.execution.status": this.#status });
    this.#root?.end(error);
    this.#root = undefined;
  }
}

interface OpenSpan {
  readonly span: Span;
  /** The path of the step that contains it; of its loop, for a step of an iteration. */
  readonly outer: string | undefined;
}

/** The trace of an execution that was started without a span: a function of the execution, so it is the same in every process. */
function toTrace({ id, startAt }: Execution): SpanIds {
  const hash = createHash("sha256").update(`${startAt} ${id}`).digest("hex");
  return { traceId: hash.slice(0, 32), spanId: hash.slice(32, 48) };
}
