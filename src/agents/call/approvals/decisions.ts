import { ServeError } from "../../../core/error.ts";
import type { CallOutcome, DecidedCall, PendingCall } from "../../../engine/stored/pending-calls.ts";
import { superseded, type OpenApproval } from "./pending-calls.ts";

/** Max characters of a reason. */
export const maxOfReason = 1_000;

/** A decision about a call that waits. */
export interface Decision extends Omit<CallOutcome, "at"> {
  /** The id of the call. */
  readonly id: string;
}

/** The decisions about a message, applied to its open calls. */
export interface Decided {
  /** The outcomes that are new. */
  readonly fresh: readonly DecidedCall[];
  /** The outcomes of all open calls, in their order. */
  readonly outcomes: readonly DecidedCall[];
  /** The calls that still wait. */
  readonly rest: readonly OpenApproval[];
}

interface DecisionParts {
  readonly open: readonly OpenApproval[];
  /** The stored calls: the open ones, and the ones that are decided now. */
  readonly known: readonly PendingCall[];
  readonly decisions: readonly Decision[];
  /** True if a client may send what it has decided before, because its message has something new. */
  readonly isRepeated: boolean;
  readonly at: number;
}

/**
 * Applies decisions to the open calls of a message. A second decision about a call is a conflict, unless it repeats the
 * first one beside a new one: a client sends its former decisions again. One about an unknown call is dropped.
 */
export function decide({ open, known, decisions, isRepeated, at }: DecisionParts): Decided {
  const outcomes = new Map(known.flatMap(({ id, outcome }) => (outcome ? [[id, outcome]] : [])));
  const messages = new Map(known.map(({ id, messageId }) => [id, messageId]));
  const fresh: DecidedCall[] = [];
  for (const { id, approved, reason, by } of decisions) {
    if (outcomes.has(id) || !open.some((call) => call.id === id)) continue;
    if (!fresh.some((call) => call.id === id)) fresh.push({ id, outcome: { approved, reason, by, at } });
  }
  const decided = decisions.flatMap(({ id, approved }) => {
    const outcome = outcomes.get(id);
    return outcome ? [{ messageId: messages.get(id) ?? "", approved, outcome }] : [];
  });
  const opposite = decided.find(({ approved, outcome }) => outcome.approved !== approved);
  const conflict = opposite ?? (fresh.length === 0 && !isRepeated ? decided[0] : undefined);
  if (conflict) throw new AlreadyDecided(conflict, conflict.outcome, conflict.approved);
  const all = new Map([...outcomes, ...fresh.map(({ id, outcome }) => [id, outcome] as const)]);
  return {
    fresh,
    outcomes: open.flatMap(({ id }) => {
      const outcome = all.get(id);
      return outcome ? [{ id, outcome }] : [];
    }),
    rest: open.filter(({ id }) => !all.has(id)),
  };
}

/** The refusal of a decision about a call that has an outcome. */
export class AlreadyDecided extends ServeError {
  /** The message that has the call. */
  readonly messageId: string;
  readonly outcome: CallOutcome;
  /** True if the decision is the one that was made before. */
  readonly isSame: boolean;

  constructor(call: Pick<PendingCall, "messageId">, outcome: CallOutcome, approved: boolean) {
    const isSuperseded = !outcome.approved && outcome.by === undefined && outcome.reason === superseded;
    super(409, `Already decided: ${outcome.approved ? "approved" : isSuperseded ? superseded : "denied"}`);
    this.messageId = call.messageId;
    this.outcome = outcome;
    this.isSame = outcome.approved === approved && !isSuperseded;
  }
}
