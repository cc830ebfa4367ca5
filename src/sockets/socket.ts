import type { Peer } from "crossws";
import type { GenericSchema, InferOutput } from "valibot";
import type { Identity } from "../core/caller.ts";

/** A browser sends a token as a protocol behind this one: it cannot set headers on a WebSocket. */
export const tokenProtocol = "bearer";

/** One WebSocket endpoint: a route beside the routes. A plain GET on it answers 426. */
export interface SocketRoute {
  readonly type: "socket";
  readonly method: "GET";
  readonly path: string;
  readonly summary: string;
  readonly access: "public";
  readonly query?: GenericSchema<object> | undefined;
  /** A connection under way; `query` has been checked by the route's schema. */
  readonly connect: (peer: Peer, asked: { query: unknown; identity: Identity }) => Connection;
}
export interface Connection {
  message?(text: string): void;
  /** What was sent has left. */
  drain?(): void;
  close?(): void;
}

/** A message as every socket of ours sends it. */
export const toMessage = (type: string, data: unknown): string => JSON.stringify({ type, success: true, data });

type QueryOutput<Q> = Q extends GenericSchema ? InferOutput<Q> : undefined;

export function defineSocket<Q extends GenericSchema<object> | undefined = undefined>(
  route: Pick<SocketRoute, "path" | "summary"> & {
    query?: Q;
    connect: (peer: Peer, asked: { query: QueryOutput<Q>; identity: Identity }) => Connection;
  },
): SocketRoute {
  // The schema of this very route checks the query before `connect` sees it.
  return {
    ...route,
    type: "socket",
    method: "GET",
    access: "public",
    connect: route.connect as SocketRoute["connect"],
  };
}
