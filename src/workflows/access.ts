import type { Action, AuthorizeExecution, AuthorizeRequest } from "../core/access/authorize.ts";
import { checkUndecided, forbidden, type ActionRequest } from "../core/access/authorizer.ts";
import type { Identity } from "../core/caller.ts";
import { deepFreeze, fromJsonText } from "../core/json.ts";
import { toIso } from "../core/iso-time.ts";
import type { Execution, ExecutionState } from "../engine/execution.ts";
import { toSuspension } from "../engine/suspension.ts";

type AccessRequest = Omit<ActionRequest, "action">;

/**
 * Decides whether the caller may do the action of the request to an execution: by `authorize`, else by `ownership`. False if
 * the caller must not learn that the execution exists. Throws or rejects with 403 if the caller may know it.
 */
export function mayAct(request: ActionRequest, state: ExecutionState): boolean | Promise<boolean> {
  const question = request.snapshot.authorizer && toQuestion(request, state);
  const allowed = question?.askSteps(request.action);
  if (question && allowed !== undefined) return decide(request, state, question, allowed);
  if (!isVisible(state, request.identity)) return false;
  checkUndecided(request.action, request.identity);
  return true;
}

/**
 * Rejects if the caller may not resume the named step, or else the first waiting one. `mayAct` has asked about a single
 * waiting step; with several, one allowed step was enough for it.
 */
export async function checkStep(request: ActionRequest, state: ExecutionState, named?: string): Promise<void> {
  const [first, ...others] = stepsOf(state);
  const stepId = named ?? first;
  if (stepId === undefined || (stepId === first && others.length === 0)) return;
  if ((await toQuestion(request, state).ask(request.action, stepId)) === false) throw forbidden();
}

/**
 * The rule where no `authorize` decides: the executions of this user, of no user (null), or of all users (undefined).
 * Undefined: none.
 */
export type Visible = { readonly userId: string | null | undefined } | undefined;

export const isIn = (visible: Visible, { userId }: Pick<Execution, "userId">): boolean =>
  visible !== undefined && (visible.userId === undefined || visible.userId === (userId ?? null));

/** Decides whether the caller may read an execution: by `authorize`, else by the rule. */
export function mayRead(request: AccessRequest, state: ExecutionState, visible: Visible): boolean | Promise<boolean> {
  return new ReadQuestion(state).ask(request, visible);
}

/** One read decision for many callers: the argument of `authorize` is made once for the owner, and once for all others. */
export class ReadQuestion {
  readonly state: ExecutionState;
  #own: AuthorizeExecution | undefined;
  #foreign: AuthorizeExecution | undefined;

  constructor(state: ExecutionState) {
    this.state = state;
  }

  ask({ identity, snapshot: { authorizer } }: AccessRequest, visible: Visible): boolean | Promise<boolean> {
    const { execution } = this.state;
    const allowed = authorizer?.ask({
      action: "execution.read",
      user: identity.caller?.user,
      workflowId: execution.workflowId,
      execution: this.#viewFor(identity),
    });
    return allowed ?? isIn(visible, execution);
  }

  #viewFor(identity: Identity): AuthorizeExecution {
    if (isOwner(this.state, identity)) return (this.#own ??= new ExecutionView(this.state, true));
    return (this.#foreign ??= new ExecutionView(this.state, false));
  }
}

/**
 * Decides whether the caller may see the step values of an execution that it may read. Its own user may. Others need
 * `execution.inspect`. Without `authorize` and `ownership`, `dev` shows them to every caller with a token, and to
 * everyone if there is no provider.
 */
export async function mayInspect(request: AccessRequest, state: ExecutionState, isDev: boolean): Promise<boolean> {
  const { checked, ownership, caller } = request.identity;
  if (isOwner(state, request.identity)) return true;
  const allowed = request.snapshot.authorizer && toQuestion(request, state).ask("execution.inspect");
  return allowed ?? (isDev && !ownership && (!checked || caller !== undefined));
}

/** Decides whether the caller may resume at least one waiting step of a suspended execution that it may read. */
export async function mayResume(request: AccessRequest, state: ExecutionState): Promise<boolean> {
  const allowed = request.snapshot.authorizer && toQuestion(request, state).askSteps("execution.resume");
  return allowed ?? isVisible(state, request.identity);
}

/** Decides whether the caller may fork an execution that it may read. */
export async function mayFork(request: AccessRequest, state: ExecutionState): Promise<boolean> {
  const allowed = request.snapshot.authorizer && toQuestion(request, state).ask("execution.fork");
  return allowed ?? !request.identity.checked;
}

async function decide(
  { action, identity }: ActionRequest,
  state: ExecutionState,
  question: Question,
  allowed: boolean | Promise<boolean>,
): Promise<boolean> {
  if (await allowed) return true;
  const isKnown = isOwner(state, identity) || (action !== "execution.read" && (await question.ask("execution.read")));
  if (isKnown) throw forbidden();
  return false;
}

/** The questions to `authorize` about one execution. Each is undefined if its workflow and the config have no `authorize`. */
interface Question {
  ask(action: Action, stepId?: string): boolean | Promise<boolean> | undefined;
  /** Asks about each step that a resume can continue, until one is allowed. */
  askSteps(action: Action): boolean | Promise<boolean> | undefined;
}

function toQuestion({ identity, snapshot: { authorizer } }: AccessRequest, state: ExecutionState): Question {
  const { workflowId } = state.execution;
  const about: Omit<AuthorizeRequest, "action"> = {
    user: identity.caller?.user,
    workflowId,
    execution: new ExecutionView(state, isOwner(state, identity)),
  };
  const ask: Question["ask"] = (action, stepId) =>
    authorizer?.ask(stepId === undefined ? { ...about, action } : { ...about, action, stepId });
  return {
    ask,
    askSteps(action) {
      const [first, ...others] = action === "execution.resume" ? stepsOf(state) : [];
      const allowed = ask(action, first);
      if (allowed === undefined || allowed === true || others.length === 0) return allowed;
      return (async () => {
        if (await allowed) return true;
        for (const stepId of others) if (await ask(action, stepId)) return true;
        return false;
      })();
    },
  };
}

/** Returns the steps that wait for a resume. */
function stepsOf({ last }: ExecutionState): string[] {
  if (last?.to !== "suspended") return [];
  if (last.pending.length > 0) return last.pending.map(({ stepId }) => stepId);
  return last.position ? [last.position.stepId] : [];
}

/** An execution without a user has no owner. */
const isOwner = ({ execution }: ExecutionState, { caller }: Identity): boolean =>
  caller?.userId !== undefined && caller.userId === execution.userId;

const isVisible = (state: ExecutionState, identity: Identity): boolean =>
  !identity.ownership || isOwner(state, identity);

/**
 * The execution that `authorize` gets. Its values are copied when they are read: a list asks about many executions. A value
 * that the execution does not have costs nothing.
 */
class ExecutionView implements AuthorizeExecution {
  readonly executionId: string;
  readonly workflowId: string;
  readonly status: AuthorizeExecution["status"];
  readonly isOwn: boolean;
  readonly userId: string | undefined;
  readonly conversationId: string | undefined;
  readonly startAt: string;
  readonly user: AuthorizeExecution["user"];
  readonly context: AuthorizeExecution["context"] = empty;
  declare readonly input: unknown;
  readonly suspension: AuthorizeExecution["suspension"] = undefined;
  readonly #state: ExecutionState;
  #copies: Map<string, unknown> | undefined;

  constructor(state: ExecutionState, isOwn: boolean) {
    const { id, workflowId, userId, conversationId, startAt, user, context } = state.execution;
    this.executionId = id;
    this.workflowId = workflowId;
    this.status = state.status;
    this.isOwn = isOwn;
    this.userId = userId;
    this.conversationId = conversationId;
    this.startAt = toIso(startAt);
    this.user = user && deepFreeze(user); // small, and only read: steps get copies
    this.#state = state;
    const lazy = ExecutionView.#lazy;
    if (!isEmpty(context)) Object.defineProperty(this, "context", lazy.context);
    if (state.last?.to === "suspended") Object.defineProperty(this, "suspension", lazy.suspension);
    Object.defineProperty(this, "input", lazy.input);
    Object.freeze(this);
  }

  /** The same functions for all views: with functions of its own, each view would take a hidden class of V8. */
  static readonly #lazy = {
    context: ExecutionView.#copied("context", ({ execution }) => structuredClone(execution.context)),
    input: ExecutionView.#copied("input", ({ execution }) => fromJsonText(execution.input)),
    suspension: ExecutionView.#copied("suspension", ({ last }) =>
      last?.to === "suspended" ? toSuspension(last) : undefined,
    ),
  };

  static #copied(name: string, make: (state: ExecutionState) => unknown): PropertyDescriptor {
    function get(this: ExecutionView): unknown {
      const copies = (this.#copies ??= new Map());
      if (!copies.has(name)) copies.set(name, deepFreeze(make(this.#state)));
      return copies.get(name);
    }
    return { get, enumerable: true };
  }
}

const empty: AuthorizeExecution["context"] = Object.freeze({});

function isEmpty(object: object): boolean {
  for (const _ in object) return false;
  return true;
}
