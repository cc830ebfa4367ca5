import type { Agents } from "../agents/agents.ts";
import { StepQuestions } from "../agents/call/step-questions.ts";
import { findAgent } from "../agents/find-agent.ts";
import { fromSchema } from "../agents/schemas/object-shape.ts";
import { isUserId, toCaller } from "../auth/user.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { applyIdentity, type Caller, type Identity } from "../core/caller.ts";
import { cut } from "../core/cut.ts";
import { badRequest, notFound, ServeError } from "../core/error.ts";
import { newId } from "../core/id.ts";
import { fromJsonText, isObject } from "../core/json.ts";
import { validate, type Schema } from "../core/schema.ts";
import type { Agent, Prompt, WorkflowReference } from "../engine/definition/reference.ts";
import type { Engine } from "../engine/contract/engine.ts";
import type { ConversationKey } from "../engine/contract/conversations.ts";
import type { ExecutionState } from "../engine/execution.ts";
import type {
  EventToSend,
  ExecutionFilter,
  ExecutionHandle,
  ForkOptions,
  QuestionOptions,
  RuntimeUser,
  StartOptions,
  StepCaller,
  StepRuntime,
  SystemRuntime,
} from "../engine/runtime.ts";
import { isIn, type Visible } from "../workflows/access.ts";
import { beginChild, toOrigin, toOwnId } from "../workflows/children.ts";
import { listForCode } from "../workflows/lists/code-list.ts";
import { begin, toText, type BeginOptions, type Origin } from "../workflows/executions.ts";
import { findWorkflow } from "../workflows/find.ts";
import { createHandle, untilDone } from "../workflows/handle.ts";
import { fork as forkExecution, forkOnce } from "../workflows/repair.ts";
import { EventBody, sendEvent } from "../workflows/send-event.ts";
import { ForkOptionsShape, StartOptionsShape } from "../workflows/start-options.ts";
import { createRuntimeConversations } from "./runtime-conversations.ts";

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
  /** The step that has asked the agent whose tools and hooks have the runtime. @default none */
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
const system: Identity = { checked: true, ownership: false, caller: undefined };

/** Creates the means of code to start workflows, ask agents and send events. */
export function createRuntime(parts: RuntimeParts, use: RuntimeUse): SystemRuntime & StepRuntime {
  const { engine, agents, stepValueBytes: maxBytes } = parts;
  const { actor, snapshot } = use;
  const step = actor !== "system" && "execution" in actor ? actor : undefined;
  /** The step whose time it is. */
  const waiting = step ?? use.within;
  const own = use.signal ?? waiting?.signal;
  const ready = waiting ? async () => {} : parts.ready;
  const identity = actor === "system" ? system : "execution" in actor ? actingFor(actor.execution) : actor;
  const handleOf = <Result>(id: string): ExecutionHandle<Result> =>
    createHandle({ engine, workflows: snapshot, caller: identity.caller, step: waiting }, id);
  const persist = <T>(work: () => Promise<T>): Promise<T> => (waiting ? untilDone(waiting, work) : work());
  const isServer = actor === "system" || use.asServer !== undefined;
  const numbers: Numbers = use.asServer ?? {
    children: 0,
    events: 0,
    forks: 0,
    messages: 0,
    questions: step && new StepQuestions(step, agents),
  };
  const { questions } = numbers;

  /** Returns the call of some options. The context is journaled, so it is plain JSON from the beginning. */
  async function toCall(options: (StartOptions | QuestionOptions<Schema | undefined>) & Extra): Promise<CheckedCall> {
    const { conversationId, as } = options;
    const context = fromJsonText(toText(options.context, "context", invalid));
    const executionId = "executionId" in options ? options.executionId : undefined;
    const checked = await validate(StartOptionsShape, { conversationId, context, executionId });
    if ("problem" in checked) throw invalid(checked.problem);
    return { options: checked.value as BeginOptions, identity: as === undefined ? identity : toIdentity(as) };
  }
  function toOriginOf({ caller }: Identity): Origin | undefined {
    if (waiting) return toOrigin(waiting, { userId: caller?.userId });
    return actor === "system" && !caller ? { begunBy: "server" } : undefined;
  }
  function toIdentity(user: RuntimeUser): Identity {
    if (!isServer) throw invalid("as: this runtime acts for its own user only; use runtime.asServer()");
    if (!isObject(user) || !isUserId(user.id)) throw invalid("as: expected a user with an id");
    toText(user, "as", invalid); // it is journaled
    return { ...system, caller: toCaller(user) };
  }

  async function start(
    workflow: WorkflowReference<never, unknown> | string,
    input: unknown,
    options: StartOptions & Extra = {},
  ) {
    const id = idOf(workflow, "a workflow");
    if (!isObject(options)) throw invalid("expected an object");
    const { key, cancelWith } = options as Extra;
    const name = key === undefined ? `#${++numbers.children}` : `=${key}`; // a key is never a number of another call
    await ready();
    const version = snapshot();
    const release = version.hold("request");
    try {
      const runnable = findWorkflow(version, id);
      const call = await toCall(options);
      if (!step) {
        const origin = toOriginOf(call.identity);
        const begun = await persist(() => begin(engine, runnable, input, call.options, call.identity, origin));
        return handleOf<never>(begun.id);
      }
      if (call.options.executionId !== undefined) throw invalid("executionId: a child has an id of its own");
      if (key !== undefined && (typeof key !== "string" || key === "")) throw invalid("key: expected a text");
      if (cancelWith !== undefined && cancelWith !== "parent") throw invalid('cancelWith: expected "parent"');
      const cancels = cancelWith !== undefined;
      const child = { name, runnable, input, call: applyIdentity(call.options, call.identity), cancels };
      return handleOf<never>(await persist(() => beginChild(engine, step, child)));
    } finally {
      release();
    }
  }

  async function ask<S extends Schema | undefined>(
    agent: Agent | string,
    prompt: Prompt,
    options: QuestionOptions<S> & Extra = {},
  ) {
    const id = idOf(agent, "an agent");
    if (!isObject(options)) throw invalid("expected an object");
    const { schema, signal } = options as QuestionOptions<S>;
    await ready();
    const version = snapshot();
    const release = version.hold("request");
    try {
      const { definition } = findAgent(version, id);
      const call = await toCall(options);
      const callContext = applyIdentity(call.options, call.identity);
      if (questions) return (await questions.ask({ agent: definition, prompt, schema, callContext, signal })) as never;
      const toShape = schema && (async () => fromSchema(schema));
      const { text, object } = await agents.generate({
        agent: definition,
        question: { input: prompt, toShape, trusted: true },
        callContext,
        isNested: use.signal !== undefined,
        signal: AbortSignal.any([own ?? [], signal ?? []].flat()),
        step: waiting,
      });
      return (schema ? object : text) as never; // the schema has validated the object
    } finally {
      release();
    }
  }

  /** The executions that it sees: those of its user, or those without one. The server itself sees all. */
  const toVisible = (userId: string | undefined): Visible => {
    const mine = identity.caller?.userId;
    const { begunBy, userId: owner } = waiting?.execution ?? {};
    if (isServer || (begunBy === "server" && owner === mine)) return { userId };
    if (userId !== undefined && userId !== mine) throw new ServeError(403, ofOther);
    if (mine !== undefined) return { userId: mine };
    // With a provider, a request without a token has nothing.
    return waiting || !snapshot().config.auth ? { userId: null } : undefined;
  };

  /** Returns the state of an execution that it may see. */
  async function find(executionId: string, call: "get" | "fork"): Promise<ExecutionState> {
    if (typeof executionId !== "string") throw badRequest(`executions.${call}(): expected the id of an execution`);
    await ready();
    const visible = toVisible(undefined);
    const state = visible && (await engine.state(executionId));
    if (!state || !isIn(visible, state.execution)) throw notFound(`Execution ${cut(String(executionId))} not found`);
    return state;
  }

  async function fork(executionId: string, given: ForkOptions = {}): Promise<ExecutionHandle> {
    const name = `#${++numbers.forks}`; // before any `await`: the same when the step runs again
    const checked = await validate(ForkOptionsShape, given);
    if ("problem" in checked) throw invalid(checked.problem);
    const options = checked.value as ForkOptions; // its schema has made it
    const state = await find(executionId, "fork");
    const version = snapshot();
    const release = version.hold("request");
    try {
      const runnable = findWorkflow(version, state.execution.workflowId);
      const { execution: original } = state;
      const origin = waiting ? toOrigin(waiting, original) : isServer ? { begunBy: original.begunBy } : {};
      const forking = async (): Promise<string> =>
        step && options.executionId === undefined
          ? forkOnce(engine, step, { name, runnable, state, options })
          : (await forkExecution(engine, runnable, state, { ...options, ...origin })).id;
      return handleOf(await persist(forking));
    } finally {
      release();
    }
  }
  const conversations = createRuntimeConversations({
    agents,
    ready,
    snapshot,
    user: { isServer, userId: identity.caller?.userId },
    turn: use.turn,
    persist,
    nextId: () => (step ? toOwnId("message", step, `#${++numbers.messages}`) : undefined),
    signal: own,
    maxBytes,
  });

  return {
    conversations,
    asServer: () => createRuntime(parts, { ...use, asServer: numbers }),
    start,
    execute: async (
      workflow: WorkflowReference<never, unknown> | string,
      input: unknown,
      options?: StartOptions & Extra,
    ) => (await start(workflow, input, options)).result(),
    ask(agent: Agent | string, prompt: Prompt, options?: QuestionOptions<Schema | undefined> & Extra) {
      const answer = ask(agent, prompt, options);
      if (step) answer.catch(() => {}); // a question that a step does not await must not end the process
      return answer as Promise<never>;
    },
    async send(event: EventToSend) {
      await ready();
      const checked = await validate(EventBody, event);
      if ("problem" in checked) throw badRequest(`Invalid event: ${checked.problem}`);
      // A step that runs again sends the same events.
      const id = event.id ?? (step ? toOwnId("event", step, `#${++numbers.events}`) : newId());
      return persist(() => sendEvent(engine, { ...event, id }, { sender: "code", share: "half", maxBytes }));
    },
    executions: {
      get: async (executionId) => handleOf((await find(executionId, "get")).execution.id),
      fork,
      async list(filter: ExecutionFilter = {}) {
        await ready();
        return listForCode(engine, filter, toVisible);
      },
    },
  };
}

const ofOther = "Forbidden: executions of another user need runtime.asServer()";
const invalid = (detail: string): ServeError => badRequest(`Invalid options: ${detail}`);

/** Returns the identity of code that acts for the user of an execution or of an agent call. */
export const actingFor = ({ user, userId }: Partial<Caller>): Identity => ({
  ...system,
  caller: user || userId !== undefined ? ({ user, userId } as Caller) : undefined, // without a provider there is only an id
});

interface CheckedCall {
  readonly options: BeginOptions;
  readonly identity: Identity;
}

function idOf(given: { readonly id: string } | string, what: string): string {
  const id: unknown = typeof given === "string" ? given : given?.id;
  if (typeof id !== "string") throw new TypeError(`runtime: expected ${what} or its id, found ${cut(String(given))}`);
  return id;
}
