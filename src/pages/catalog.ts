import type { Access, Method, Route } from "../http/route.ts";
import type { SocketRoute } from "../sockets/socket.ts";

export type Json = Record<string, unknown>;
export type Row = Route<never> | SocketRoute;

/** What the pages and the document need of a snapshot: what there is, and who may call it. */
export interface Catalog {
  readonly agents: ReadonlyMap<string, { readonly detail: AgentEntry }>;
  readonly workflows: ReadonlyMap<string, { readonly detail: WorkflowEntry }>;
  readonly policy: Policy | undefined;
}
export interface AgentEntry {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly model: string;
  readonly tools: readonly { readonly name: string; readonly description: string }[];
}
export interface WorkflowEntry {
  readonly id: string;
  readonly name: string;
  readonly purpose: string;
  readonly steps: readonly StepEntry[];
  readonly inputSchema: Json;
  readonly suspendSchema: Json | null;
  readonly resumeSchema: Json | null;
}
export interface StepEntry {
  readonly name: string;
  readonly type: string;
  readonly suspendSchema?: Json | undefined;
  readonly resumeSchema?: Json | undefined;
  readonly steps?: readonly StepEntry[] | undefined;
}
interface Policy {
  describe(asked: { method: string; path: string; row: Row; isUpgrade: boolean }): Verdict;
}
/** `except`: what says otherwise for some paths of a pattern. */
interface Verdict {
  readonly access: Access;
  readonly except: readonly string[];
}

/** The row with this pattern; of one agent or workflow, if an id is given. */
export interface Place {
  readonly method: Method;
  readonly pattern: string;
  readonly id?: string | undefined;
}
/** Whether a request without a token may be refused here. */
export type NeedsToken = (place: Place) => boolean;

export function toNeedsToken(rows: readonly Row[], { policy }: Catalog): NeedsToken {
  return ({ method, pattern, id }) => {
    const row = rows.find((one) => one.method === method && one.path === pattern);
    if (!policy || !row) return false;
    const { access, except } = askPolicy(policy, row, id);
    return access === "protected" || except.length > 0;
  };
}

/** Who may call a row; for one agent or workflow, if an id is given. */
export function askPolicy(policy: Policy, row: Row, id: string | undefined): Verdict {
  const { method, path, type } = row;
  // A colon in an id begins no parameter.
  const asked = toPath(path, id?.replaceAll(":", String.raw`\:`));
  return policy.describe({ method, path: asked, row, isUpgrade: type === "socket" });
}

export const toPath = (pattern: string, id: string | undefined): string =>
  id === undefined ? pattern : pattern.replace(":id", id);

/** What somebody is shown. Undefined stands for a list that is closed to them. */
export interface Shown {
  readonly agents: readonly AgentEntry[] | undefined;
  readonly workflows: readonly WorkflowEntry[] | undefined;
}

/** A page that is open to all must not tell what `GET /agents` and `GET /workflows` would refuse to tell. */
export function toShown({ agents, workflows }: Catalog, needsToken: NeedsToken, isKnown: boolean): Shown {
  const isHidden = (pattern: string, id?: string): boolean => !isKnown && needsToken({ method: "GET", pattern, id });
  function list<E extends { id: string }>(entries: Iterable<{ detail: E }>, pattern: string): E[] | undefined {
    if (isHidden(pattern)) return undefined;
    const details = [...entries].map(({ detail }) => detail);
    return details.filter(({ id }) => !isHidden(`${pattern}/:id`, id));
  }
  return { agents: list(agents.values(), "/agents"), workflows: list(workflows.values(), "/workflows") };
}
