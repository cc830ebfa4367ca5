import type { AttemptResult } from "../walk/decision.ts";

/** The result of an attempt; a final error in its place if its value would make the execution larger than allowed. */
export function toBounded(
  result: AttemptResult,
  { bytes, executionBytes }: { readonly bytes: number; readonly executionBytes: number },
): AttemptResult {
  const text = "value" in result ? result.value : "suspended" in result ? result.suspended.data : undefined;
  if (text === undefined || bytes + Buffer.byteLength(text) <= executionBytes) return result;
  const message = `The values of the execution take more than ${executionBytes} bytes (limits.executionBytes)`;
  return { at: result.at, error: { message, shown: true }, isFinal: true, hasRecords: result.hasRecords };
}
