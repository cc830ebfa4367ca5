import type { Client } from "./client.ts";
import type { Screen } from "./screen.ts";
import type { CallFlags } from "./target.ts";

/** One run of the command: what was asked for, of whom, and where it is shown. */
export interface Call {
  /** Of the workflow or the agent. */
  readonly id: string;
  readonly input: string | undefined;
  readonly flags: CallFlags;
  readonly client: Client;
  readonly screen: Screen;
}
