import { InnerApproval } from "./inner-approval.ts";

/** The result of a tool call that waits. It is never recorded or shown: another turn continues the call. */
export type NoResult = SuspendedCall | InnerApproval;

/** The result of a tool call whose execution is suspended. */
export class SuspendedCall {
  readonly executionId: string;
  /** The suspension, as in the response of `POST /workflows/:id/execute`. */
  readonly suspension: { readonly reason: string };

  constructor(executionId: string, suspension: { readonly reason: string }) {
    this.executionId = executionId;
    this.suspension = suspension;
  }
}

export const isNoResult = (value: unknown): value is NoResult =>
  value instanceof SuspendedCall || value instanceof InnerApproval;

/** The result of such a call for the SDK, which accepts only plain values. */
export const placeholder: object = Object.freeze({});
