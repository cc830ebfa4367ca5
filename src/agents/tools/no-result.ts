import { InnerApproval } from "./inner-approval.ts";
import { SuspendedCall } from "./suspended-call.ts";

/** The result of a tool call that waits, and has none yet. It is never recorded or shown: another turn continues the call. */
export type NoResult = SuspendedCall | InnerApproval;

export const isNoResult = (value: unknown): value is NoResult =>
  value instanceof SuspendedCall || value instanceof InnerApproval;
