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

/** One call of an agent, from its first hook to its last. Most calls need none of what is made only when it is read. */
export class Operation implements AgentContext {
  readonly agent: AgentDefinition;
  readonly options: AgentCallOptions;
  readonly step: boolean;
  readonly #parts: OperationOptions;
  readonly #controller = new AbortController();
  #id: string | undefined;
  #context: ReadonlyMap<string, unknown> | undefined;
  #logger: Logger | undefined;
  #failure: unknown;

  constructor(parts: OperationOptions) {
    this.agent = parts.agent;
    this.options = parts.options;
    this.step = parts.step;
    this.#parts = parts;
    if (parts.signal.aborted) this.#leave();
    else parts.signal.addEventListener("abort", this.#leave, { once: true });
  }

  get operationId(): string {
    return (this.#id ??= newId());
  }
  get userId(): string | undefined {
    return this.#parts.caller?.userId ?? this.options.userId;
  }
  get conversationId(): string | undefined {
    return this.options.conversationId;
  }
  get context(): ReadonlyMap<string, unknown> {
    const { context = {}, conversationId } = this.options;
    const { user } = this.#parts.caller ?? {};
    return (this.#context ??= toContextMap({ context, conversationId, userId: this.userId, user }));
  }
  get logger(): Logger {
    const { agent, operationId, userId, conversationId } = this;
    return (this.#logger ??= withData(this.#parts.logger, { agentId: agent.id, operationId, userId, conversationId }));
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
    // The event is the one of this very hook; TypeScript cannot follow that through the name.
    const hook = agent.hooks[name] as ((event: unknown) => unknown) | undefined;
    if (!hook) return;
    try {
      await hook({ ...event, agent, context: this });
    } catch (error) {
      this.abort(error);
      throw error;
    }
  }

  /** What the caller may hear of a failure. The rest is for the log, and for the author's hook. */
  async fail(sdk: Sdk, thrown: unknown): Promise<ServeError> {
    const error = this.#failure ?? thrown;
    const shown = toServeError(sdk, error);
    if (shown.status >= 500 && shown !== error) {
      // A mistake in the author's own code keeps its stack.
      const cause = shown.status === 500 ? shown.cause : toLogged(shown.cause);
      this.logger.error(shown.message, { error: cause });
    }
    await this.hook("onError", { error }).catch((hookError: unknown) =>
      this.logger.error("onError failed", { error: hookError }),
    );
    return shown;
  }

  /** Nobody waits for it any more. */
  close(): void {
    this.#parts.signal.removeEventListener("abort", this.#leave);
  }
}

type EventOf<Name extends keyof AgentHooks> = Omit<Parameters<NonNullable<AgentHooks[Name]>>[0], "agent" | "context">;
