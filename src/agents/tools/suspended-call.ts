/** The result of a tool call whose execution is suspended. It is never recorded or shown: the call has no result yet. */
export class SuspendedCall {
  readonly executionId: string;
  /** The suspension, as `POST /workflows/:id/execute` answers it. */
  readonly suspension: { readonly reason: string };

  constructor(executionId: string, suspension: { readonly reason: string }) {
    this.executionId = executionId;
    this.suspension = suspension;
  }
}
