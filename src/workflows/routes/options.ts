import type { Engine } from "../../engine/contract/engine.ts";

export interface WorkflowRoutesOptions {
  readonly engine: Engine;
  /** True to show the message of every error, false to show only that of a `ServeError`. */
  readonly showErrors: boolean;
  /** Returns the code at which an attempt has failed, by the journal key of the attempt. @default no code is shown */
  readonly findFrame?: ((executionId: string, key: string) => string | undefined) | undefined;
  /** The largest data of an event, as JSON. */
  readonly stepValueBytes: number;
}
