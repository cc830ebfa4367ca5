import type { ParkedBranch } from "../../../engine/execution.ts";
import type { ComingEvent } from "../../../engine/wait-order.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { Drive } from "../drive.ts";
import type { EventTable, SentHead } from "../store/event-table.ts";
import { mayTake } from "../../../engine/rules/take-events.ts";

/** An event for a branch. */
export interface Candidate extends ComingEvent {
  readonly branch: ParkedBranch<Value>;
  readonly head: SentHead;
}
interface Waiting {
  readonly branch: ParkedBranch<Value>;
  readonly heads: Generator<SentHead>;
  first?: SentHead;
}

/** The stored events that the branches of one run may take, in the order in which they were stored. It sees no later ones. */
export class RunEvents {
  readonly #drive: Drive;
  readonly #events: EventTable;
  /** The events that a branch is done with: its schema has refused them, or they could not be read. */
  readonly #passed: Set<string>;
  readonly #waiting: Set<Waiting>;

  constructor(drive: Drive, events: EventTable, passed: Set<string>) {
    this.#drive = drive;
    this.#events = events;
    this.#passed = passed;
    const branches = drive.walk.parkedBranches().filter(({ event }) => event);
    this.#waiting = new Set(branches.map((branch) => ({ branch, heads: this.#find(branch) })));
  }

  /** The oldest event that a branch may take; of several branches, it is for the first one in the order of the definition. */
  first(): Candidate | undefined {
    let found: Candidate | undefined;
    for (const one of this.#waiting) {
      const head = this.#firstOf(one);
      if (!head) this.#waiting.delete(one);
      else if (!found || head.number < found.head.number)
        found = { key: one.branch.key, branch: one.branch, head, at: head.at };
    }
    return found;
  }

  /** The branch does not get the event. */
  pass({ key, head }: Candidate): void {
    this.#passed.add(toId(key, head));
  }

  #firstOf(one: Waiting): SentHead | undefined {
    const { branch, heads, first } = one;
    if (!this.#drive.walk.isWaitingFor(branch.key)) return undefined;
    if (!first || !this.#isNew(branch, first)) one.first = heads.next().value as SentHead | undefined; // it returns nothing
    return one.first;
  }

  #isNew({ key }: ParkedBranch<Value>, head: SentHead): boolean {
    return !this.#drive.run.hasTaken(head.id) && !this.#passed.has(toId(key, head));
  }

  *#find(branch: ParkedBranch<Value>): Generator<SentHead> {
    const filter = branch.event!;
    const { number: began, execution } = this.#drive.committed;
    let after = filter.isAnyAge ? 0 : began;
    for (let page = this.#events.after(filter, after, pageSize); page.length > 0;) {
      for (const head of page) {
        const isOlder = head.number <= began;
        if (mayTake(filter, { ...head, isOlder }, execution) && this.#isNew(branch, head)) yield head;
      }
      after = page.at(-1)!.number;
      page = page.length < pageSize ? [] : this.#events.after(filter, after, pageSize);
    }
  }
}

const toId = (key: string, { id, number }: SentHead): string => `${key} ${number} ${id}`;

/** The stored events that are looked at together. Their data is read one by one. */
const pageSize = 100;
