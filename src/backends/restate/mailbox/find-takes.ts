import type { JsonText } from "../../../core/json.ts";
import type { Walk } from "../../../engine/attempts/walk.ts";
import type { EventFilter, Execution, ParkedBranch } from "../../../engine/execution.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { Take } from "../register/register-state.ts";
import { toMailboxKey } from "./mailbox-key.ts";
import type { EventHead } from "./service.ts";

/** The part of a replica that reads mailboxes. */
export interface MailboxReader {
  eventHeads(mailbox: string): Promise<readonly EventHead[]>;
  /** The data of an event; undefined if it is gone. */
  eventData(mailbox: string, id: string): Promise<JsonText | undefined>;
  /** The schema of a step refuses an event. It is logged once. */
  refused(execution: Execution, stepId: string, event: string, problem: string): void;
}

/** The most characters of events that are taken at once: a message of Restate has a limit. The others are taken next. */
const mostChars = 8_000_000;

/** Finds the oldest event that each branch may take, in the order of their times. An event is taken by one branch. */
export async function findTakes(
  reader: MailboxReader,
  { execution, walk, taken }: { execution: Execution; walk: Walk; taken: ReadonlySet<string> },
): Promise<Take[]> {
  const heads = new Map<string, readonly EventHead[]>();
  const gone = new Set(taken);
  const takes: Take[] = [];
  let chars = 0;
  for (const branch of walk.parkedBranches()) {
    if (!branch.event || chars > mostChars) continue;
    const mailbox = toMailboxKey(branch.event);
    if (!heads.has(mailbox)) heads.set(mailbox, await reader.eventHeads(mailbox));
    for (const head of heads.get(mailbox)!) {
      if (gone.has(head.id) || !isFor(head, branch.event, execution)) continue;
      const take = await accept(branch, mailbox, head);
      if (!take) continue;
      gone.add(head.id);
      takes.push(take);
      chars += take.value?.length ?? 0;
      break;
    }
  }
  return takes.toSorted((one, other) => one.receivedAt - other.receivedAt);

  async function accept(
    { key, event: filter, stepId }: ParkedBranch<Value>,
    mailbox: string,
    { id, hasData, receivedAt }: EventHead,
  ): Promise<Take | undefined> {
    const data = hasData ? await reader.eventData(mailbox, id) : undefined;
    if (hasData && data === undefined) return undefined; // it has expired meanwhile
    const accepted = await walk.acceptEvent(filter!, data);
    if ("value" in accepted) return { key: key!, event: id, receivedAt, value: accepted.value };
    reader.refused(execution, stepId, id, accepted.problem);
    return undefined;
  }
}

function isFor(
  { userId, isFromCode, receivedAt }: EventHead,
  filter: EventFilter,
  { startAt, userId: owner }: Execution,
): boolean {
  if (userId !== undefined && userId !== owner) return false;
  if (filter.isFromCode && !isFromCode) return false;
  return filter.isAnyAge === true || receivedAt >= startAt;
}
