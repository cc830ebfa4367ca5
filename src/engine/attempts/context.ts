import { toContextMap } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { fromJsonText, toJsonText, toObject } from "../../core/json.ts";
import type { Logger } from "../../core/log.ts";
import type { StepContext, SuspendOptions } from "../definition/step-context.ts";
import type { Execution } from "../execution.ts";
import type { StepRuntime } from "../runtime.ts";
import type { AttemptPlan } from "../walk/decision.ts";
import type { Value } from "../walk/value.ts";
import type { WalkHost } from "./walk.ts";

/** The attempt that a context belongs to. */
export interface ContextSource {
  readonly plan: AttemptPlan;
  readonly host: Pick<WalkHost, "publishLive" | "clock"> & {
    readonly execution: Execution;
    readonly stepValueBytes: number;
  };
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly runtime: StepRuntime;
  /** Parses a value of the plan. */
  read(value: Value): unknown;
  /** The recorded output of a step. */
  output(stepId: string): Value;
  suspend(reason?: string, data?: unknown, options?: SuspendOptions): Promise<never>;
}

/** The context of a step. A class with getters, so that each part is made only when the step reads it. */
export class Context implements StepContext {
  readonly #attempt: ContextSource;
  data: unknown;

  constructor(attempt: ContextSource) {
    this.#attempt = attempt;
    this.data = attempt.read(attempt.plan.data);
  }

  get suspend(): StepContext["suspend"] {
    return (reason, data, options) => this.#attempt.suspend(reason, data, options);
  }
  get timedOut(): boolean {
    return this.#attempt.plan.resumed?.isWake === true;
  }
  get input(): unknown {
    return this.#attempt.read(this.#attempt.plan.input);
  }
  get resumeData(): unknown {
    return this.#attempt.read(this.#attempt.plan.resumed?.data);
  }
  get resumedBy(): StepContext["resumedBy"] {
    return structuredClone(this.#attempt.plan.resumed?.by); // a copy, so that a step cannot change it for others
  }
  get getStepData(): StepContext["getStepData"] {
    return (id) => this.#attempt.read(this.#attempt.output(id));
  }
  get context(): StepContext["context"] {
    return toContextMap(this.#attempt.host.execution);
  }
  get executionId(): string {
    return this.#attempt.host.execution.id;
  }
  get stepId(): string {
    return this.#attempt.plan.path;
  }
  get attempt(): number {
    return this.#attempt.plan.attempt;
  }
  get idempotencyKey(): string {
    return this.#attempt.plan.idempotencyKey;
  }
  get signal(): AbortSignal {
    return this.#attempt.signal;
  }
  get logger(): Logger {
    return this.#attempt.logger;
  }
  get runtime(): StepRuntime {
    return this.#attempt.runtime;
  }
  get emit(): StepContext["emit"] {
    return (event) => emitOwn(event, this.#attempt);
  }
}

const reserved = /^(workflow|step)-/;

/** Publishes a copy of an author's event. The fields of the server replace the author's, and only stored events have a `seq`. */
function emitOwn(event: { type: string }, { host, plan: { path } }: ContextSource): void {
  const { execution, publishLive, stepValueBytes, clock } = host;
  const { seq: _, ...own } = toObject(fromJsonText(toJsonText(event, "event", stepValueBytes)));
  const { type } = own;
  if (typeof type !== "string") throw new TypeError("emit: an event needs a type");
  if (reserved.test(type)) throw new TypeError(`emit: the event type ${cut(type)} is reserved`);
  const timestamp = new Date(clock.now()).toISOString();
  publishLive({ ...own, type, executionId: execution.id, from: path, timestamp });
}
