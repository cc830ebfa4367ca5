import type { Logger } from "../../../core/log.ts";
import type { Durations } from "../../../core/metrics.ts";
import { FileGoneError } from "../file/data-file.ts";
import type { Store } from "./store.ts";
import { Writer } from "./writer.ts";

interface OpenWriterOptions {
  readonly logger: Logger;
  readonly durations: Durations | undefined;
}

/** The writer of a store. It logs when the store cannot be written, and when it can be again. */
export function openWriter(store: Store, { logger, durations }: OpenWriterOptions): Writer {
  return new Writer({
    store,
    durations,
    onStall: (error) => logger.error(error instanceof FileGoneError ? fileGone : stalled, { error }),
    onRecovery: () => logger.info("The store can be written again"),
  });
}

const fileGone =
  "The data file was deleted or replaced: nothing can be written until it is back or the server is restarted";
const stalled = "The store cannot be written; running executions continue when it can be written again";
