import { toSentId } from "../stored/sent-event.ts";
import { withIds, type Logger } from "../../core/log.ts";
import type { JsonText } from "../../core/json.ts";
import type { Walk } from "../attempts/walk.ts";
import type { Execution, ParkedBranch } from "../execution.ts";
import { mayTake, type EventHead } from "../rules/take-events.ts";
import type { Value } from "../walk/value.ts";

/** An event that ends a wait. */
export interface Take {
  /** The journal key of the wait. */
  readonly key: string;
  /** The id of the event, and the time at which it was received. */
  readonly event: string;
  readonly receivedAt: number;
  readonly value?: JsonText | undefined;
}
/** The events that end waits, in the order of their times. */
export interface FoundTakes {
  readonly takes: readonly Take[];
  /** There may be more. */
  readonly isCut?: true | undefined;
}

/** The stored events of a backend. */
export interface EventReader<Head extends EventHead> {
  /** The events with the name and key that a branch waits for, the oldest first. */
  heads(branch: ParkedBranch<Value>): Iterable<Head> | Promise<Iterable<Head>>;
  /** The data of an event; undefined if the event is gone. */
  data(head: Head, branch: ParkedBranch<Value>): Promise<{ readonly text: JsonText | undefined } | undefined>;
  /** The schema of a step refuses an event. */
  refused(head: Head, branch: ParkedBranch<Value>, problem: string): void;
}

/** The execution that events are looked up for. */
export interface EventRecipient {
  readonly execution: Execution;
  readonly walk: Pick<Walk, "parkedBranches" | "acceptEvent">;
  /** Returns true if an event ended a wait of the execution. */
  readonly hasTaken: (event: string) => boolean;
}

/** Max characters of events that are taken at once, except the last: a message of a backend has a limit. */
const maxChars = 8_000_000;

/** A branch, its events, and the one that it may take next. */
interface Search<Head> {
  readonly branch: ParkedBranch<Value>;
  readonly heads: Iterator<Head>;
  first: Head | undefined;
}

/** Finds the oldest event that each branch may take. An event is taken by one branch: the first one in the definition. */
export async function findTakes<Head extends EventHead>(
  reader: EventReader<Head>,
  recipient: EventRecipient,
): Promise<FoundTakes> {
  const { execution, walk, hasTaken } = recipient;
  const gone = new Set<string>();
  const searches = new Set<Search<Head>>();
  for (const branch of walk.parkedBranches())
    if (branch.event)
      searches.add({ branch, heads: (await reader.heads(branch))[Symbol.iterator](), first: undefined });
  const takes: Take[] = [];
  for (let chars = 0; ;) {
    let found: { readonly search: Search<Head>; readonly head: Head } | undefined;
    for (const search of searches) {
      const head = (search.first = next(search));
      if (!head) searches.delete(search);
      else if (!found || head.order < found.head.order) found = { search, head };
    }
    if (!found) return { takes };
    if (chars > maxChars) return { takes, isCut: true };
    const { search, head } = found;
    search.first = undefined;
    const take = await accept(search.branch, head);
    if (!take) continue;
    searches.delete(search);
    gone.add(head.id);
    takes.push(take);
    chars += take.value?.length ?? 0;
  }

  function next({ branch, heads, first }: Search<Head>): Head | undefined {
    const isFree = (head: Head): boolean => !gone.has(head.id) && !hasTaken(head.id);
    if (first && isFree(first)) return first;
    for (let one = heads.next(); !one.done; one = heads.next())
      if (isFree(one.value) && mayTake(branch.event!, one.value, execution)) return one.value;
    return undefined;
  }

  async function accept(branch: ParkedBranch<Value>, head: Head): Promise<Take | undefined> {
    const data = await reader.data(head, branch);
    if (!data) return undefined; // it has expired meanwhile
    const accepted = await walk.acceptEvent(branch.event!, data.text);
    if ("value" in accepted) return { key: branch.key, event: head.id, receivedAt: head.at, value: accepted.value };
    reader.refused(head, branch, accepted.problem);
    return undefined;
  }
}

/** Max remembered events. Beyond it the oldest one is forgotten, and may be logged again. */
const maxRefused = 10_000;

/** Logs each event once that the schema of a waiting step has refused. */
export class RefusedEvents {
  readonly #logger: Logger;
  readonly #logged = new Set<string>();

  constructor(logger: Logger) {
    this.#logger = logger;
  }

  logOnce({ id, workflowId }: Execution, stepId: string, event: string, problem: string): void {
    const key = `${id}/${stepId} ${event}`;
    if (this.#logged.has(key)) return;
    this.#logged.add(key);
    const [oldest] = this.#logged;
    if (oldest !== undefined && this.#logged.size > maxRefused) this.#logged.delete(oldest);
    const logger = withIds(this.#logger, { executionId: id, workflowId, stepId });
    logger.warn("An event does not match the schema of the step that waits for it", {
      event: toSentId(event),
      problem,
    });
  }
}
