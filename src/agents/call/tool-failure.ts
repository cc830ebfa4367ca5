import { ServeError } from "../../core/error.ts";
import type { Operation } from "./operation.ts";
import { isMany } from "./recorded-calls.ts";

/** The tool and the id of a call. */
export interface ToolCallName {
  readonly name: string;
  readonly toolCallId: string;
}

/** A reported error. Its message is the whole text for models and clients, its cause the tool's own error. */
export class ToolFailure extends Error {
  override readonly name = ""; // the SDK shows models the text of an error, with its name
}

/**
 * Runs a tool. Its errors are logged, counted, and replaced by those that models, clients and records get. Errors of a result
 * that is iterated are included.
 */
export function runReported(operation: Operation, call: ToolCallName, run: () => unknown): unknown {
  const fail = (error: unknown): never => {
    throw reportTool(operation, call, error);
  };
  try {
    const result = run();
    if (isMany(result)) return iterate(result, fail);
    return result instanceof Promise ? result.catch(fail) : result;
  } catch (error) {
    return fail(error);
  }
}

async function* iterate(results: AsyncIterable<unknown>, fail: (error: unknown) => never): AsyncGenerator<unknown> {
  try {
    yield* results;
  } catch (error) {
    fail(error);
  }
}

/**
 * Logs and counts the error of a tool call. Returns the error for models, clients and records. In `start`, only a
 * `ServeError` or a time-out keeps its text.
 */
export function reportTool(
  operation: Operation,
  { name, toolCallId }: ToolCallName,
  error: unknown,
  message = "Tool failed",
): unknown {
  if (error instanceof ToolFailure) return error;
  const { logger } = operation.context;
  const data = { tool: name, toolCallId, error };
  // The tool was aborted together with its call.
  if (operation.sdkSignal.aborted) logger.debug("Tool aborted", data);
  else {
    logger.warn(message, data);
    operation.trace.countToolError();
  }
  if (error instanceof ServeError) {
    Reflect.defineProperty(error, "toString", { value: () => error.message }); // without the name of the class
    return error;
  }
  return operation.showErrors || isTimeout(error) ? error : new ToolFailure(`Tool ${name} failed`, { cause: error });
}

/** True for the error of an `AbortSignal.timeout()`. A library's error of the same name may have any text. */
const isTimeout = (error: unknown): boolean => error instanceof DOMException && error.name === "TimeoutError";
