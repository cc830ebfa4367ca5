import type { SuspensionKind } from "../../server/live.ts";

const names = ["workflow", "status", "kind", "id", "since", "until"] as const;
/** The filter of the list, as it is in the query of the place: a link to it can be shared. `id` is the beginning of an id. */
export type RunFilter = { readonly [N in (typeof names)[number]]?: string | undefined };

export const statusChoices = ["running", "suspended", "completed", "failed", "cancelled"] as const;
export const kindChoices: readonly (readonly [SuspensionKind, string])[] = [
  ["person", "a person"],
  ["event", "an event"],
  ["timer", "a time"],
  ["request", "a resume (by request)"],
  ["system", "a resume (by the server)"],
];

export const readFilter = (query: URLSearchParams): RunFilter =>
  Object.fromEntries(names.map((name) => [name, query.get(name) ?? undefined]));

/** Returns the query of `GET /executions`. */
export function toListQuery({ workflow, status, kind, ...rest }: RunFilter): Record<string, string | undefined> {
  const isError = status === "failed" || status === "cancelled";
  return {
    workflowId: workflow,
    status: isError ? "error" : status,
    cancelled: isError ? String(status === "cancelled") : undefined,
    kind: status === "suspended" ? kind : undefined,
    ...rest,
  };
}
