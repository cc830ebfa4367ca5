/** The error of a model that exceeded a time limit. */
export class ModelTimeout extends Error {}
/**
 * The error of a model that cannot be loaded, throws a value that is not an object, fails during a stream, or sends no
 * finish reason.
 */
export class ModelFailure extends Error {}
// The errors that providers threw. They are not wrapped, because the SDK reads them to decide on a retry.
const thrown = new WeakSet<object>();

export const isModelError = (error: unknown): boolean =>
  error instanceof ModelFailure || (typeof error === "object" && error !== null && thrown.has(error));

/** Marks an error that a provider threw before its answer. */
export function markThrown(error: unknown): unknown {
  if (error instanceof ModelTimeout) return error;
  if (typeof error !== "object" || error === null) return new ModelFailure(String(error));
  thrown.add(error);
  return error;
}

/** Converts an error inside a stream. */
export function toStreamFailure(error: unknown): Error {
  if (error instanceof ModelTimeout) return error;
  return new ModelFailure(error instanceof Error ? error.message : JSON.stringify(error), { cause: error });
}
