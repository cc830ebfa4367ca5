import type { Agents } from "../../agents/agents.ts";
import { StepQuestions } from "../../agents/call/step-questions.ts";
import { findAgent } from "../../agents/find-agent.ts";
import { fromSchema } from "../../agents/schemas/object-shape.ts";
import { isUserId, toCaller } from "../../auth/user.ts";
import { withVersion, type Snapshot } from "../../config/snapshot.ts";
import { applyIdentity, type Identity } from "../../core/caller.ts";
import { cut } from "../../core/cut.ts";
import { badRequest, notFound, ServeError } from "../../core/error.ts";
import { newId } from "../../core/id.ts";
import { fromJsonText, isObject } from "../../core/json.ts";
import { validate, type Schema } from "../../core/schema.ts";
import type { Agent, Prompt, WorkflowReference } from "../../engine/definition/reference.ts";
import type { Engine } from "../../engine/contract/engine.ts";
import type { ConversationKey } from "../../engine/contract/conversations.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import type {
  EventToSend,
  ExecutionHandle,
  ExecutionOutcome,
  Executions,
  ForkOptions,
  QuestionOptions,
  RuntimeConversations,
  RuntimeUser,
  StartOptions,
  StepCaller,
  StepRuntime,
  SystemRuntime,
} from "../../engine/runtime.ts";
import { isIn, type Visible } from "../../workflows/access.ts";
import { beginChild, toOrigin, toOwnId } from "../../workflows/children.ts";
import { listForCode } from "../../workflows/lists/code-list.ts";
import { begin, toText, type BeginOptions, type Origin } from "../../workflows/executions.ts";
import { findWorkflow } from "../../workflows/find.ts";
import { createHandle, untilDone } from "../../workflows/handle.ts";
import { fork as forkExecution, forkOnce } from "../../workflows/repair.ts";
import { EventBody, sendEvent } from "../../workflows/send-event.ts";
import { ForkOptionsShape, StartOptionsShape } from "../../workflows/start-options.ts";
import { actingFor, system } from "./acting-for.ts";
import { checkOptions, idOf, invalid } from "./arguments.ts";
import { createRuntimeConversations } from "./conversations.ts";

export interface RuntimeParts {
  readonly engine: Engine;
  readonly agents: Agents;
  /** Resolves when the store is open. */
  readonly ready: () => Promise<unknown>;
  /** The largest data of an event, as JSON. */
  readonly stepValueBytes: number;
}
export interface RuntimeUse {
  /** Whom it acts for: a caller, a step, or the server itself. */
  readonly actor: Identity | StepCaller | "system";
  /** Returns the version of the config whose workflows and agents it uses. */
  readonly snapshot: () => Snapshot;
  /** The step behind the agent call, for a runtime of tools and hooks. @default none */
  readonly within?: StepCaller | undefined;
  /** Aborts the questions that it asks. @default never */
  readonly signal?: AbortSignal | undefined;
  /** The conversation of the agent call that has the runtime. @default none */
  readonly turn?: Partial<ConversationKey> | undefined;
  /** The same for a runtime and its `asServer()`, which sees all executions. @default a new one, which is not of the server */
  readonly asServer?: Numbers;
}
/** The numbers of children, events, forks and messages so far, and the questions of a step. */
interface Numbers {
  children: number;
  events: number;
  forks: number;
  messages: number;
  readonly questions: StepQuestions | undefined;
}

type Extra = { as?: RuntimeUser; key?: string; cancelWith?: "parent" };

/** Creates the means of code to start workflows, ask agents and send events. */
export function createRuntime(parts: RuntimeParts, use: RuntimeUse): SystemRuntime & StepRuntime {
  return new CodeRuntime(parts, use);
}

/** The public methods are bound: code may take them off its runtime. */
class CodeRuntime implements SystemRuntime, StepRuntime {
  readonly conversations: RuntimeConversations;
  readonly #parts: RuntimeParts;
  readonly #use: RuntimeUse;
  /** The step whose code has this runtime. Undefined in tools and hooks. */
  readonly #step: StepCaller | undefined;
  /** The step whose time it is. */
  readonly #waiting: StepCaller | undefined;
  readonly #identity: Identity;
  readonly #isServer: boolean;
  readonly #numbers: Numbers;

  constructor(parts: RuntimeParts, use: RuntimeUse) {
    const { actor, asServer, snapshot, turn } = use;
    this.#parts = parts;
    this.#use = use;
    this.#step = actor !== "system" && "execution" in actor ? actor : undefined;
    this.#waiting = this.#step ?? use.within;
    this.#identity = actor === "system" ? system : "execution" in actor ? actingFor(actor.execution) : actor;
    this.#isServer = actor === "system" || asServer !== undefined;
    const step = this.#step;
    const questions = step && new StepQuestions(step, parts.agents);
    const numbers = asServer ?? { children: 0, events: 0, forks: 0, messages: 0, questions };
    this.#numbers = numbers;
    this.conversations = createRuntimeConversations({
      agents: parts.agents,
      ready: () => this.#ready(),
      snapshot,
      user: { isServer: this.#isServer, userId: this.#identity.caller?.userId },
      turn,
      persist: (work) => this.#persist(work),
      nextId: () => step && toOwnId("message", step, `#${++numbers.messages}`),
      signal: this.#signal,
      maxBytes: parts.stepValueBytes,
    });
  }

  readonly asServer = (): CodeRuntime => new CodeRuntime(this.#parts, { ...this.#use, asServer: this.#numbers });

  readonly start = async (
    workflow: WorkflowReference<never, unknown> | string,
    input: unknown,
    options: StartOptions & Extra = {},
  ): Promise<ExecutionHandle<never>> => {
    const id = idOf(workflow, "a workflow");
    if (!isObject(options)) throw invalid("expected an object");
    const { key, cancelWith } = options;
    const { engine } = this.#parts;
    const step = this.#step;
    const name = key === undefined ? `#${++this.#numbers.children}` : `=${key}`; // a key is never a number of another call
    await this.#ready();
    return withVersion(this.#use.snapshot(), async (version) => {
      const runnable = findWorkflow(version, id);
      const call = await this.#toCall(options);
      if (!step) {
        const started = { ...call.options, origin: this.#toOrigin(call.identity) };
        const begun = await this.#persist(() => begin(engine, runnable, input, started, call.identity));
        return this.#handleOf<never>(begun.id);
      }
      if (call.options.executionId !== undefined) throw invalid("executionId: a child has an id of its own");
      if (key !== undefined && (typeof key !== "string" || key === "")) throw invalid("key: expected a text");
      if (cancelWith !== undefined && cancelWith !== "parent") throw invalid('cancelWith: expected "parent"');
      const cancels = cancelWith !== undefined;
      const child = { name, runnable, input, call: applyIdentity(call.options, call.identity), cancels };
      return this.#handleOf<never>(await this.#persist(() => beginChild(engine, step, child)));
    });
  };

  readonly execute = async (
    workflow: WorkflowReference<never, unknown> | string,
    input: unknown,
    options?: StartOptions & Extra,
  ): Promise<ExecutionOutcome<never>> => (await this.start(workflow, input, options)).result();

  readonly ask = (
    agent: Agent | string,
    prompt: Prompt,
    options: QuestionOptions<Schema | undefined> & Extra = {},
  ): Promise<never> => {
    const answer = this.#ask(agent, prompt, options);
    if (this.#step) answer.catch(() => {}); // a question that a step does not await must not end the process
    return answer as Promise<never>; // the schema has validated an object
  };

  readonly send = async (event: EventToSend): Promise<{ id: string }> => {
    await this.#ready();
    const checked = await validate(EventBody, event);
    if ("problem" in checked) throw badRequest(`Invalid event: ${checked.problem}`);
    const { engine, stepValueBytes: maxBytes } = this.#parts;
    const step = this.#step;
    // A step that runs again sends the same events.
    const id = event.id ?? (step ? toOwnId("event", step, `#${++this.#numbers.events}`) : newId());
    return this.#persist(() => sendEvent(engine, { ...event, id }, { sender: "code", share: "half", maxBytes }));
  };

  readonly executions: Executions = {
    get: async (executionId) => this.#handleOf((await this.#find(executionId, "get")).execution.id),
    fork: (executionId, options) => this.#fork(executionId, options),
    list: async (filter = {}) => {
      await this.#ready();
      return listForCode(this.#parts.engine, filter, (userId) => this.#toVisible(userId));
    },
  };

  async #ready(): Promise<void> {
    if (!this.#waiting) await this.#parts.ready();
  }

  #persist<T>(work: () => Promise<T>): Promise<T> {
    return this.#waiting ? untilDone(this.#waiting, work) : work();
  }

  get #signal(): AbortSignal | undefined {
    return this.#use.signal ?? this.#waiting?.signal;
  }

  #handleOf<Result>(id: string): ExecutionHandle<Result> {
    const { engine } = this.#parts;
    const { caller } = this.#identity;
    return createHandle({ engine, workflows: this.#use.snapshot, caller, step: this.#waiting }, id);
  }

  /** Returns the call of some options. The context is journaled, so it is plain JSON from the beginning. */
  async #toCall(options: (StartOptions | QuestionOptions<Schema | undefined>) & Extra): Promise<CheckedCall> {
    const { conversationId, as } = options;
    const context = fromJsonText(toText(options.context, "context", invalid));
    const executionId = "executionId" in options ? options.executionId : undefined;
    const checked = await checkOptions(StartOptionsShape, { conversationId, context, executionId });
    return { options: checked, identity: as === undefined ? this.#identity : this.#toIdentity(as) };
  }

  #toOrigin({ caller }: Identity): Origin | undefined {
    if (this.#waiting) return toOrigin(this.#waiting, { userId: caller?.userId });
    return this.#use.actor === "system" && !caller ? { begunBy: "server" } : undefined;
  }

  #toIdentity(user: RuntimeUser): Identity {
    if (!this.#isServer) throw invalid("as: this runtime acts for its own user only; use runtime.asServer()");
    if (!isObject(user) || !isUserId(user.id)) throw invalid("as: expected a user with an id");
    toText(user, "as", invalid); // it is journaled
    return { ...system, caller: toCaller(user) };
  }

  async #ask(
    agent: Agent | string,
    prompt: Prompt,
    options: QuestionOptions<Schema | undefined> & Extra,
  ): Promise<unknown> {
    const id = idOf(agent, "an agent");
    if (!isObject(options)) throw invalid("expected an object");
    const { schema, signal } = options as QuestionOptions<Schema | undefined>;
    await this.#ready();
    return withVersion(this.#use.snapshot(), async (version) => {
      const { definition } = findAgent(version, id);
      const call = await this.#toCall(options);
      const callContext = applyIdentity(call.options, call.identity);
      const { questions } = this.#numbers;
      if (questions) return questions.ask({ agent: definition, prompt, schema, callContext, signal });
      const toShape = schema && (async () => fromSchema(schema));
      const { text, object } = await this.#parts.agents.generate({
        agent: definition,
        question: { input: prompt, toShape, trusted: true },
        callContext,
        isNested: this.#use.signal !== undefined,
        signal: AbortSignal.any([this.#signal ?? [], signal ?? []].flat()),
        step: this.#waiting,
      });
      return schema ? object : text;
    });
  }

  /** The visible executions: of its user, or without a user. The server itself sees all. */
  #toVisible(userId: string | undefined): Visible {
    const mine = this.#identity.caller?.userId;
    const { begunBy, userId: owner } = this.#waiting?.execution ?? {};
    if (this.#isServer || (begunBy === "server" && owner === mine)) return { userId };
    if (userId !== undefined && userId !== mine) throw new ServeError(403, ofOther);
    if (mine !== undefined) return { userId: mine };
    // With a provider, a request without a token has nothing.
    return this.#waiting || !this.#use.snapshot().config.auth ? { userId: null } : undefined;
  }

  /** Returns the state of an execution that it may see. */
  async #find(executionId: string, call: "get" | "fork"): Promise<ExecutionState> {
    if (typeof executionId !== "string") throw badRequest(`executions.${call}(): expected the id of an execution`);
    await this.#ready();
    const visible = this.#toVisible(undefined);
    const state = visible && (await this.#parts.engine.state(executionId));
    if (!state || !isIn(visible, state.execution)) throw notFound(`Execution ${cut(String(executionId))} not found`);
    return state;
  }

  async #fork(executionId: string, given: ForkOptions = {}): Promise<ExecutionHandle> {
    const name = `#${++this.#numbers.forks}`; // before any `await`: the same when the step runs again
    const options = await checkOptions(ForkOptionsShape, given);
    const state = await this.#find(executionId, "fork");
    const { engine } = this.#parts;
    const { execution: original } = state;
    return withVersion(this.#use.snapshot(), async (version) => {
      const runnable = findWorkflow(version, original.workflowId);
      const step = this.#step;
      const ownOrigin = this.#isServer ? { begunBy: original.begunBy } : {};
      const origin = this.#waiting ? toOrigin(this.#waiting, original) : ownOrigin;
      const forking = async (): Promise<string> =>
        step && options.executionId === undefined
          ? forkOnce(engine, step, { name, runnable, state, options })
          : (await forkExecution(engine, runnable, state, { ...options, ...origin })).id;
      return this.#handleOf(await this.#persist(forking));
    });
  }
}

const ofOther = "Forbidden: executions of another user need runtime.asServer()";

interface CheckedCall {
  readonly options: BeginOptions;
  readonly identity: Identity;
}
