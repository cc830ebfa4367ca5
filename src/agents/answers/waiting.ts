import { DetailedError, ServeError } from "../../core/error.ts";
import type { PendingApproval } from "../call/call.ts";

/** The error of a call whose answer must be an object, and waits. The approvals are in the body of the response. */
export const waiting = (approvals: readonly PendingApproval[]): DetailedError =>
  new DetailedError(new ServeError(409, "A tool waits for approval"), { approvals }, []);
