import type { OnEnded } from "../../core/byte-budget.ts";

/** A request as it arrives, over the network or from a host. */
export interface Incoming {
  /** The request, with a body of at most `bodyBytes`. */
  readonly request: Request;
  /** Returns the request with another limit of its body, or the same request if its body has been touched. */
  readonly withBodyLimit: (bytes: number) => Request;
  /** Registers a callback for the end of the response. */
  readonly onEnded: OnEnded;
  /** Called if the rest of the response needs nothing of the snapshot. */
  readonly release: () => void;
}
