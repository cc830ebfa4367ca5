import { InnerApproval } from "./inner-approval.ts";
import { SuspendedCall } from "./suspended-call.ts";

/** The result of a tool call that waits, and has none yet. It is never recorded or shown: another turn continues the call. */
export type NoResult = SuspendedCall | InnerApproval;

export const isNoResult = (value: unknown): value is NoResult =>
  value instanceof SuspendedCall || value instanceof InnerApproval;

/** The result of such a call as the SDK has it: it accepts only plain values. */
export const placeholder: object = Object.freeze({});
