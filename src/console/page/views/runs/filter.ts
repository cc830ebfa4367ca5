import type { SuspensionKind } from "../../server/live.ts";

/** The filter of the list, as it is in the query of the place: a link to it can be shared. */
export interface RunFilter {
  readonly workflow?: string | undefined;
  readonly status?: string | undefined;
  readonly kind?: string | undefined;
  /** The beginning of the id. */
  readonly id?: string | undefined;
  readonly since?: string | undefined;
  readonly until?: string | undefined;
}

export const statusChoices = ["running", "suspended", "completed", "failed", "cancelled"] as const;
export const kindChoices: readonly (readonly [SuspensionKind, string])[] = [
  ["person", "a person"],
  ["event", "an event"],
  ["timer", "a time"],
  ["request", "a resume (by request)"],
  ["system", "a resume (by the server)"],
];

export function readFilter(query: URLSearchParams): RunFilter {
  const get = (name: string): string | undefined => query.get(name) ?? undefined;
  return {
    workflow: get("workflow"),
    status: get("status"),
    kind: get("kind"),
    id: get("id"),
    since: get("since"),
    until: get("until"),
  };
}

/** Returns the query of `GET /executions`. */
export function toListQuery({
  workflow,
  status,
  kind,
  id,
  since,
  until,
}: RunFilter): Record<string, string | undefined> {
  const isError = status === "failed" || status === "cancelled";
  return {
    workflowId: workflow,
    status: isError ? "error" : status,
    cancelled: isError ? String(status === "cancelled") : undefined,
    kind: status === "suspended" ? kind : undefined,
    id,
    since,
    until,
  };
}
