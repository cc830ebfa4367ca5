import { restate } from "../../src/backends/restate/define.ts";
import type { Config } from "../../src/config/define.ts";
import { createComplaintLogger, type Hosted } from "../harness/hosted.ts";

/** The addresses of a Restate server or cluster. */
export interface RestateAddresses {
  readonly ingress: string | readonly string[];
  readonly admin: string;
}
/** The options that the module of a replica gets, beside its own. */
export interface ReplicaPlace extends RestateAddresses {
  readonly name: string;
  /** The Restate port of the replica, and the URL at which Restate reaches the replicas. */
  readonly port: number;
  readonly url: string;
  /** A folder that all replicas of a group share. */
  readonly folder: string;
}

/** Serves a config as a replica. It is ready when it is registered. */
export function serveReplica(place: ReplicaPlace, config: Config, options: object = {}): Hosted {
  const { ingress, admin, name, port, url } = place;
  return {
    config: {
      ...config,
      backend: restate({ ingress: ingress as string[], admin, name, serve: { port, url }, ...options }),
    },
    logger: createComplaintLogger(console.error),
    onListening: (server) => server.fetch(new Request("http://localhost/doc")), // answered when it is registered
  };
}
