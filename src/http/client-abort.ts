/** Returns true for an error that says only that the client closed its connection. It is not a fault of the server. */
export function isClientAbort(error: unknown, { signal }: Request): boolean {
  if (!signal.aborted) return false;
  // h3 wraps the error of Node.
  for (let one = error; one instanceof Error; one = one.cause) {
    if (one.name === "AbortError" || ("code" in one && one.code === "ECONNRESET")) return true;
  }
  return false;
}
