import type { CallOutcome } from "../../../engine/stored/pending-calls.ts";
import type { OpenApproval } from "./pending-calls.ts";

/** The calls of an answer that a turn continues. */
export interface ContinuedCalls {
  /** The calls that have waited for an approval. */
  readonly open: readonly OpenApproval[];
  /** Their outcomes, by tool call id. */
  readonly decided: ReadonlyMap<string, CallOutcome>;
}

/** The approvals that one call of an agent asks for. */
export class ToolApprovals {
  /** The reasons why tools do not run. */
  #refusals: Map<string, string> | undefined;
  #next: string | undefined;

  refuse(name: string, toolCallId: string, reason: string): void {
    (this.#refusals ??= new Map()).set(toKey(name, toolCallId), reason);
  }
  /** Forgets the refusal of an earlier call: some providers use an id again. */
  forget(name: string, toolCallId: string): void {
    this.#refusals?.delete(toKey(name, toolCallId));
  }
  reasonOf(name: string, toolCallId: string): string | undefined {
    return this.#refusals?.get(toKey(name, toolCallId));
  }

  /** The next id that the SDK generates is the approval id of this tool call. */
  request(toolCallId: string): void {
    this.#next = toolCallId;
  }
  takeRequest(): string | undefined {
    const next = this.#next;
    this.#next = undefined;
    return next;
  }
}

/** The key of a refusal. A later call of another tool may have the same id. */
const toKey = (name: string, toolCallId: string): string => JSON.stringify([name, toolCallId]);
