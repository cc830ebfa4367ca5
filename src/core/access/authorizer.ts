import type { Action, Authorize, AuthorizeRequest } from "./authorize.ts";
import { consoleCaller, type Identity } from "../caller.ts";
import { ServeError } from "../error.ts";
import type { Logger } from "../log.ts";
import { within } from "../clock.ts";

/** Asks the `authorize` callbacks of one config version. */
export interface Authorizer {
  /** True if the config itself has an `authorize`. */
  readonly isGlobal: boolean;
  /** The ids of the workflows and agents that have an `authorize` in their definition. */
  readonly own: Readonly<Record<"workflows" | "agents", readonly string[]>>;
  /**
   * Returns the decision of the workflow's or agent's own `authorize`, else of the config's. Undefined if neither has
   * one. Never throws and never rejects. Freezes the request.
   */
  ask(request: AuthorizeRequest): boolean | Promise<boolean> | undefined;
}

/** The access rules of a snapshot. */
export interface Authorized {
  /** Undefined if there is no `authorize`. */
  readonly authorizer: Authorizer | undefined;
}

type Guarded = Iterable<{ readonly id: string; readonly authorize?: Authorize | undefined }>;

export interface AuthorizerOptions {
  readonly authorize: Authorize | undefined;
  readonly workflows: Guarded;
  readonly agents: Guarded;
  readonly logger: Pick<Logger, "error">;
}

/** Creates an authorizer. Returns undefined if there is no `authorize` at all, so that requests skip the question. */
export function createAuthorizer({ authorize, logger, ...guarded }: AuthorizerOptions): Authorizer | undefined {
  const workflows = toOwn(guarded.workflows);
  const agents = toOwn(guarded.agents);
  if (!authorize && workflows.size === 0 && agents.size === 0) return undefined;
  let quietUntil = 0;

  return {
    isGlobal: authorize !== undefined,
    own: { workflows: [...workflows.keys()], agents: [...agents.keys()] },
    ask(request) {
      if (request.user === consoleCaller.user) return true;
      const { workflowId = "", agentId = "" } = request;
      const decide = workflows.get(workflowId) ?? agents.get(agentId) ?? authorize;
      return decide && toDecision(decide, request);
    },
  };

  function toDecision(decide: Authorize, request: AuthorizeRequest): boolean | Promise<boolean> {
    try {
      const result: unknown = decide(Object.freeze(request));
      if (typeof result === "boolean") return result;
      if (typeof result !== "object" || result === null) return isTrue(result, request);
      // A promise of another realm, or an object with a `then` that throws, becomes a promise here.
      const promise = new Promise<unknown>((resolve) => resolve(result));
      return within(authorizeMs, promise, { onLate: () => late }).then(
        (value) => (value === late ? refuse("no answer within 5 seconds", request) : isTrue(value, request)),
        (error: unknown) => refuse(error, request),
      );
    } catch (error) {
      return refuse(error, request);
    }
  }

  function isTrue(value: unknown, request: AuthorizeRequest): boolean {
    if (typeof value === "boolean") return value;
    return refuse(`expected true or false, found ${value === null ? "null" : typeof value}`, request);
  }

  /** Logs the reason, at most once a second. The user and the values of the execution are not logged. */
  function refuse(error: unknown, { action, workflowId, agentId }: AuthorizeRequest): false {
    if (performance.now() < quietUntil) return false;
    quietUntil = performance.now() + 1_000;
    logger.error("authorize failed, so the request was refused", { action, workflowId, agentId, error });
    return false;
  }
}

/** The authorizer of the console, where the config has none: it may decide about the approvals of all users. */
export const allowAll: Authorizer = { isGlobal: true, own: { workflows: [], agents: [] }, ask: () => true };

/** Time limit of `authorize`. */
const authorizeMs = 5_000;
const late = Symbol("late");

function toOwn(guarded: Guarded): Map<string, Authorize> {
  return new Map([...guarded].flatMap(({ id, authorize }) => (authorize ? [[id, authorize]] : [])));
}

/** The part of a request about an action. */
export interface ActionRequest {
  readonly action: Action;
  readonly identity: Identity;
  readonly snapshot: Authorized;
}

/** Returns `found` if the action is allowed. Throws or rejects with 403 otherwise. Not for actions on an execution. */
export function admit<T>(
  { action, identity, snapshot: { authorizer } }: ActionRequest,
  found: T,
  about: Pick<AuthorizeRequest, "workflowId" | "agentId" | "scheduleId"> = {},
): T | Promise<T> {
  const allowed = authorizer?.ask({ action, user: identity.caller?.user, ...about });
  if (allowed === undefined) checkUndecided(action, identity);
  if (allowed === undefined || allowed === true) return found;
  if (allowed === false) throw forbidden();
  return allowed.then((isAllowed) => {
    if (!isAllowed) throw forbidden();
    return found;
  });
}

/**
 * The actions that need an `authorize` once there is a provider, with their names in the 403. A valid token alone is
 * not enough: they repeat work, which another person may have paid for or approved.
 */
const guarded: Partial<Record<Action, string>> = {
  "execution.fork": "forks",
  "schedule.trigger": "schedule commands",
  "schedule.pause": "schedule commands",
};
export const needsAuthorize = (action: Action): boolean => action in guarded;

/** Throws a 403 for an action that needs an `authorize`. Called where none decides. */
export function checkUndecided(action: Action, { checked }: Identity): void {
  if (checked && needsAuthorize(action))
    throw new ServeError(403, `Forbidden: ${guarded[action]} need authorize, see docs/auth.md`);
}

export const forbidden = (): ServeError => new ServeError(403, "Forbidden");
