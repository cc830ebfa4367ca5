import type { Caller } from "../core/caller.ts";
import type { ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import { withData, type Logger } from "../core/log.ts";
import { toContextMap } from "../engine/context.ts";
import type { AgentContext } from "./context.ts";
import type { AgentDefinition, AgentHooks, ModelSettings } from "./define.ts";
import { clientLeft, toLogged, toServeError } from "./failure.ts";
import type { Sdk } from "./sdk.ts";

export interface AgentCallOptions extends ModelSettings {
  readonly userId?: string | undefined;
  readonly conversationId?: string | undefined;
  readonly context?: Readonly<Record<string, unknown>> | undefined;
  readonly maxSteps?: number | undefined;
}

export interface OperationOptions {
  readonly agent: AgentDefinition;
  readonly options: AgentCallOptions;
  readonly caller: Caller | undefined;
  readonly logger: Logger;
  /** Aborted when the caller leaves. */
  readonly signal: AbortSignal;
  /** Whether a step of a workflow asks. */
  readonly step: boolean;
}

/** One call of an agent, from its first hook to its last. */
export class Operation implements AgentContext {
  readonly operationId: string = newId();
  readonly agent: AgentDefinition;
  readonly options: AgentCallOptions;
  readonly userId: string | undefined;
  readonly conversationId: string | undefined;
  readonly context: ReadonlyMap<string, unknown>;
  readonly logger: Logger;
  readonly #controller = new AbortController();
  readonly #outer: AbortSignal;
  readonly step: boolean;
  #failure: unknown;

  constructor({ agent, options, caller, logger, signal, step }: OperationOptions) {
    this.step = step;
    this.agent = agent;
    this.options = options;
    this.userId = caller?.userId ?? options.userId;
    this.conversationId = options.conversationId;
    this.context = toContextMap({
      ...options,
      context: options.context ?? {},
      userId: this.userId,
      user: caller?.user,
    });
    this.logger = withData(logger, { agentId: agent.id, operationId: this.operationId });
    this.#outer = signal;
    if (signal.aborted) this.#leave();
    else signal.addEventListener("abort", this.#leave, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  readonly #leave = (): void => this.abort(clientLeft());

  /** Ends the call with this error, whatever the model makes of it. */
  abort(error: unknown): void {
    this.#failure ??= error;
    this.#controller.abort(error);
  }

  /** The value, unless the call is aborted first: a tool may not listen. */
  unlessAborted<T>(value: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const leave = (): void => reject(this.signal.reason as Error);
      if (this.signal.aborted) leave();
      this.signal.addEventListener("abort", leave, { once: true });
      value.then(resolve, reject);
    });
  }

  /** Calls a hook. What it throws ends the call. */
  async hook<Name extends keyof AgentHooks>(name: Name, event: EventOf<Name>): Promise<void> {
    const { agent } = this;
    try {
      // The event is the one of this very hook; TypeScript cannot follow that through the name.
      await (agent.hooks[name] as ((event: unknown) => unknown) | undefined)?.({ ...event, agent, context: this });
    } catch (error) {
      this.abort(error);
      throw error;
    }
  }

  /** What the caller may hear of a failure. The rest is for the log, and for the author's hook. */
  async fail(sdk: Sdk, thrown: unknown): Promise<ServeError> {
    const error = this.#failure ?? thrown;
    const shown = toServeError(sdk, error);
    if (shown.status >= 500 && shown !== error) this.logger.error(shown.message, { error: toLogged(shown.cause) });
    await this.hook("onError", { error }).catch((hookError: unknown) =>
      this.logger.error("onError failed", { error: hookError }),
    );
    return shown;
  }

  /** Nobody waits for it any more. */
  close(): void {
    this.#outer.removeEventListener("abort", this.#leave);
  }
}

type EventOf<Name extends keyof AgentHooks> = Omit<Parameters<NonNullable<AgentHooks[Name]>>[0], "agent" | "context">;
