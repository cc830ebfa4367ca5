import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { Metrics } from "../../core/metrics.ts";
import type { ExecutionStatus } from "../execution.ts";
import type { OnSettled } from "../execution-log.ts";
import type { Conversations } from "./conversations.ts";
import type { Engine } from "./engine.ts";
import type { ScheduleStore } from "./schedules.ts";
import type { UsageStore } from "./usage.ts";

/** A place for executions and conversations, as a config describes it. Inert until it is opened. */
export interface Backend {
  readonly type: string;
  /** The options of the description. Two backends of one type and equal settings are the same. */
  readonly settings?: Readonly<Record<string, unknown>>;
  /** True if the data is in a file, which `--data` can name. */
  readonly hasFile?: boolean;
  /** A setting that is unsafe outside a laptop. */
  readonly risk?: { readonly message: string; readonly hint: string } | undefined;
  /** Creates the engine. Connects to nothing and writes nothing: that is `Engine.open`. */
  readonly open: (parts: BackendParts) => OpenBackend;
  /** Reports about the stored data without opening or changing it. Rejects with the reason why a server could not use it. */
  readonly inspect?: (parts: Pick<BackendParts, "root" | "file">) => Promise<Inspection>;
}
/** The report of `inspect`. */
export interface Inspection {
  /** The place of the data: a file or a URL. */
  readonly place: string;
  /** Short facts for a person, such as `12.0 MB`. */
  readonly facts: readonly string[];
  /** True if a server uses it at the moment. */
  readonly isInUse: boolean;
  readonly executions: Readonly<Partial<Record<ExecutionStatus, number>>>;
}
interface OpenBackend {
  readonly engine: Engine;
  readonly conversations: Conversations;
  readonly schedules: ScheduleStore;
  readonly usage: UsageStore;
}
interface BackendParts {
  /** The folder of the config. */
  readonly root: string;
  /** A data file named on the command line or in the environment, for a backend that `hasFile`. */
  readonly file?: string | undefined;
  readonly sseBufferBytes: number;
  readonly runningExecutions: number;
  readonly queuedExecutions: number;
  /** Max executions that wait for the `concurrency` of their workflow. */
  readonly waitingExecutions: number;
  readonly executionBytes: number;
  /** Max bytes of a conversation that `Turn.history` returns. */
  readonly conversationBytes: number;
  /** Max events that are kept for later waits. @default 100000 */
  readonly storedEvents?: number | undefined;
  /** Beyond these bytes, new work is refused with 507. @default 0: no limit */
  readonly storeBytes?: number | undefined;
  readonly storeFreeBytes?: number | undefined;
  readonly logger: Logger;
  /** Counts transitions and writes. @default nothing is counted */
  readonly metrics?: Metrics | undefined;
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  /** Called by the process that has run the execution, or answered the command. @default nothing */
  readonly onSettled?: OnSettled | undefined;
}
