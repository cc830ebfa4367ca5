import type { JsonText } from "../../../core/json.ts";
import type { Walk } from "../../../engine/attempts/walk.ts";
import type { Execution, ParkedBranch } from "../../../engine/execution.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { Take } from "../register/register-state.ts";
import { toMailboxKey } from "./mailbox-key.ts";
import type { EventHead } from "./service.ts";
import { mayTake } from "../../../engine/rules/take-events.ts";

/** The part of a replica that reads mailboxes. */
export interface MailboxReader {
  eventHeads(mailbox: string): Promise<readonly EventHead[]>;
  /** The data of an event; undefined if it is gone. */
  eventData(mailbox: string, id: string): Promise<JsonText | undefined>;
  /** The schema of a step refuses an event. It is logged once. */
  refused(execution: Execution, stepId: string, event: string, problem: string): void;
}

/** The most characters of events that are taken at once, except the last: a message of Restate has a limit. */
const mostChars = 8_000_000;

/** A branch, and the number of the event in its mailbox that it may take next. */
interface Taker {
  readonly branch: ParkedBranch<Value>;
  readonly mailbox: string;
  next: number;
}

/** The events that end waits, in the order of their times. */
export interface FoundTakes {
  readonly takes: readonly Take[];
  /** There may be more. */
  readonly isCut?: true | undefined;
}

/** Finds the oldest event that each branch may take. An event is taken by one branch. */
export async function findTakes(
  reader: MailboxReader,
  { execution, walk, taken }: { execution: Execution; walk: Walk; taken: ReadonlySet<string> },
): Promise<FoundTakes> {
  const heads = new Map<string, readonly EventHead[]>();
  const gone = new Set(taken);
  const waiting = new Set<Taker>();
  for (const branch of walk.parkedBranches()) {
    if (!branch.event) continue;
    const mailbox = toMailboxKey(branch.event);
    if (!heads.has(mailbox)) heads.set(mailbox, await reader.eventHeads(mailbox));
    waiting.add({ branch, mailbox, next: 0 });
  }
  const takes: Take[] = [];
  let chars = 0;
  for (;;) {
    let first: EventHead | undefined;
    let taker: Taker | undefined;
    for (const one of waiting) {
      const all = heads.get(one.mailbox)!;
      while (one.next < all.length && !isFor(one.branch, all[one.next]!)) one.next++;
      const head = all[one.next];
      if (!head) waiting.delete(one);
      else if (!first || head.receivedAt < first.receivedAt) [first, taker] = [head, one];
    }
    if (!first || !taker) return { takes };
    if (chars > mostChars) return { takes, isCut: true };
    const take = await accept(taker.branch, taker.mailbox, first);
    taker.next++;
    if (!take) continue;
    waiting.delete(taker);
    gone.add(first.id);
    takes.push(take);
    chars += take.value?.length ?? 0;
  }

  function isFor({ event }: ParkedBranch<Value>, head: EventHead): boolean {
    const isOlder = head.receivedAt < execution.startAt;
    return !gone.has(head.id) && mayTake(event!, { ...head, isOlder }, execution);
  }

  async function accept(
    { key, event: filter, stepId }: ParkedBranch<Value>,
    mailbox: string,
    { id, hasData, receivedAt }: EventHead,
  ): Promise<Take | undefined> {
    const data = hasData ? await reader.eventData(mailbox, id) : undefined;
    if (hasData && data === undefined) return undefined; // it has expired meanwhile
    const accepted = await walk.acceptEvent(filter!, data);
    if ("value" in accepted) return { key: key, event: id, receivedAt, value: accepted.value };
    reader.refused(execution, stepId, id, accepted.problem);
    return undefined;
  }
}
