import { DetailedError, ServeError } from "../../core/error.ts";
import type { Answer } from "../call/answers/answer.ts";

/**
 * Returns the error of a call whose answer must be an object, and waits. The approvals are in the body of the response. Undefined
 * if the answer is complete.
 */
export function toWaiting({ approvals, suspensions }: Answer): DetailedError | undefined {
  if (approvals.length > 0)
    return new DetailedError(new ServeError(409, "A tool waits for approval"), { approvals }, []);
  if (suspensions.length === 0) return undefined;
  const ids = suspensions.map(({ executionId }) => executionId).join(", ");
  return new DetailedError(new ServeError(409, `A tool waits for a suspended execution: ${ids}`), {}, []);
}
