import { isShown, toErrorMessage } from "../../core/error.ts";
import type { Logger } from "../../core/log.ts";
import type { TableCode } from "../definition/code-table.ts";
import type { Execution, StoredError } from "../execution.ts";
import type { AttemptPlan } from "../walk/decision.ts";
import { toRetryDelay } from "../walk/entries.ts";
import type { WalkSpans } from "./spans.ts";

/** Takes the error of a failed attempt, by the execution and the journal key of the attempt. */
export type OnFailure = (executionId: string, key: string, error: unknown) => void;

/** An attempt that has failed. */
interface FailedAttempt {
  readonly plan: AttemptPlan;
  readonly code: TableCode;
  readonly host: {
    readonly execution: Execution;
    readonly spans: WalkSpans;
    readonly failures: LoggedFailures;
    readonly onFailure?: OnFailure | undefined;
  };
  readonly logger: Logger;
  /** Its result is not needed. */
  readonly abortReason: string | undefined;
}

/** The error as it is stored. It is logged here, once. */
export function toStoredError(error: unknown, attempt: FailedAttempt, isFinal: boolean): StoredError {
  const { path, key } = attempt.plan;
  const { spans, onFailure, execution } = attempt.host;
  const message = toErrorMessage(error);
  spans.failed(path, error);
  if (attempt.abortReason === undefined) onFailure?.(execution.id, key, error);
  logFailure(error, attempt, message, isFinal);
  if (!isShown(error)) return { message };
  return error.status < 500 ? { message, shown: true, status: error.status } : { message, shown: true };
}

/** Logs the failure of an attempt, once: as a warning if it is retried, at `debug` if its result is not needed. */
function logFailure(error: unknown, attempt: FailedAttempt, message: string, isFinal: boolean): void {
  const { host, code, plan, logger } = attempt;
  const { attempt: number, path } = plan;
  const { retry, isTolerated } = code;
  const { attempts } = retry;
  if (attempt.abortReason !== undefined) return logger.debug("Step aborted", { error, attempt: number });
  if (!isFinal) {
    const delayMs = toRetryDelay(retry, number + 1, plan.idempotencyKey);
    return logger.warn("Step attempt failed", { error, attempt: number, attempts, delayMs });
  }
  logger.error("Step failed", { error, attempt: number, ...(isTolerated && { isTolerated }) });
  if (!isTolerated) host.failures.add(path, message);
}

/** The failures of one walk that are logged as the end of its execution, by step: at most one for each step. */
export class LoggedFailures {
  /** Created at the first failure: most executions have none. */
  #messages: Map<string, string> | undefined;

  add(path: string, message: string): void {
    this.#messages ??= new Map();
    this.#messages.delete(path); // the latest one is the last one
    this.#messages.set(path, message);
  }

  /** Returns the last step that failed with this message. */
  find(message: string): string | undefined {
    return [...(this.#messages ?? [])].findLast(([, known]) => known === message)?.[0];
  }
}
