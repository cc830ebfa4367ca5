import type { Clock } from "../../core/clock.ts";
import type { Logger } from "../../core/log.ts";
import type { Drives } from "./drives.ts";
import type { Store } from "./store/store.ts";
import type { WaitingExecutions } from "./waiting-executions.ts";

/** The parts of an engine whose file is open. */
export interface EngineParts {
  readonly store: Store;
  readonly drives: Drives;
  readonly waiting: WaitingExecutions;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Resolves when it is known which executions are continued. Undefined once it is. */
  readonly known: () => Promise<void> | undefined;
}
