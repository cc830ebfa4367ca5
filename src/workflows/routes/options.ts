import type { Engine } from "../../engine/backend.ts";

export interface WorkflowRoutesOptions {
  readonly engine: Engine;
  /** True to show the message of every error, false to show only that of a `ServeError`. */
  readonly showErrors: boolean;
  /** The largest data of an event, as JSON. */
  readonly stepValueBytes: number;
}
