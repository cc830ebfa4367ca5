import type { Peer } from "crossws";
import type { GenericSchema, InferOutput } from "valibot";
import type { Action } from "../core/access/authorize.ts";
import type { Identity } from "../core/caller.ts";

/** The subprotocol that a browser offers before the token: it cannot set headers on a WebSocket. */
export const tokenProtocol = "bearer";

/** One WebSocket endpoint. It is in the same table as the routes. A plain GET on it answers 426. */
export interface SocketRoute {
  readonly type: "socket";
  readonly method: "GET";
  readonly path: string;
  readonly summary: string;
  /** More about the route than its summary says, as Markdown. */
  readonly description?: string;
  readonly access: "public";
  /** The action that `authorize` is asked about before the connection opens. @default none */
  readonly action?: Action | undefined;
  readonly yields?: false;
  readonly needsStore?: false;
  readonly largeBody?: false;
  readonly query?: GenericSchema<object> | undefined;
  /** Called for each open connection. `query` has been validated by the schema of the route. */
  readonly connect: (peer: Peer, asked: { query: unknown; identity: Identity }) => Connection;
}
export interface Connection {
  message?(text: string): void;
  /** Called when the send buffer is empty again. */
  drain?(): void;
  close?(): void;
}

/** Serializes a message in the shape that all built-in sockets use. */
export const toMessage = (type: string, data: unknown): string => JSON.stringify({ type, success: true, data });

type QueryOutput<Q> = Q extends GenericSchema ? InferOutput<Q> : undefined;

export function defineSocket<Q extends GenericSchema<object> | undefined = undefined>(
  route: Pick<SocketRoute, "path" | "summary" | "description" | "action"> & {
    query?: Q;
    connect: (peer: Peer, asked: { query: QueryOutput<Q>; identity: Identity }) => Connection;
  },
): SocketRoute {
  // The schema of this route validates the query before `connect` is called.
  return {
    ...route,
    type: "socket",
    method: "GET",
    access: "public",
    connect: route.connect as SocketRoute["connect"],
  };
}
