import { busy } from "../../core/error.ts";
import type { Execution } from "../execution.ts";

/** A run that may be given a slot. */
export interface Admissible {
  /** Must not throw. */
  admit(): void;
  /** True if it is admitted before those that are not. @default false */
  readonly isFirst?: boolean;
}
/** A member of a group: a run, or the number of an execution that keeps its place without one. */
export type Member = Admissible | number;
/** Stands for a run that gets no slot: none of its steps may start. */
export const noSlot: Admissible = { admit() {} };
/** A run, and the bytes of its stored values. */
export type QueuedRun = readonly [run: Admissible, bytes: number];

/** The executions of one workflow that share a concurrency key. */
export interface GroupName {
  readonly workflowId: string;
  readonly key: string;
}
export interface GroupOptions {
  /** Max executions that wait for a place, over all groups. */
  readonly waiting: number;
  /** The place count of each group of a workflow. It may change at any time. */
  readonly limitOf: (workflowId: string) => number;
}
/** A reservation for an execution that is being written. */
export interface Reservation {
  /** True if the group has no place for it now. */
  readonly isWaiting: boolean;
  release(): void;
}

/** Returns the group of an execution; undefined if its workflow has no `concurrency`. */
export const toGroup = (workflowId: string, key: string | null | undefined): GroupName | undefined =>
  key === undefined || key === null ? undefined : { workflowId, key };

export const groupOf = ({ execution }: { readonly execution: Execution }): GroupName | undefined =>
  toGroup(execution.workflowId, execution.concurrencyKey);

interface Group extends GroupName {
  /** The number of executions that have a place. */
  inside: number;
  /** The number of reservations, and of those that are for the line. */
  entering: number;
  lining: number;
  /** The number of executions that wait. */
  waiting: number;
  /** The ends of the waiting line. */
  first: GroupPlace | undefined;
  last: GroupPlace | undefined;
}
/** The place of a member in its group. Waiting runs are linked: to leave a line of any length takes the same time. */
interface GroupPlace {
  readonly group: Group;
  /** Only while it waits: a run that has left its place must not stay in memory. */
  queued?: QueuedRun | undefined;
  isWaiting: boolean;
  before?: GroupPlace | undefined;
  after?: GroupPlace | undefined;
}

/**
 * The places of executions in their groups, first come first served in each group.
 *
 * G1. At most as many executions of a group have a place as its workflow's limit says. A lower limit takes no place away.
 * G2. Each change takes the same time, however many executions wait. A changed limit is noticed by the next change of a group.
 * G3. A group exists while an execution is in it, waits for it or is being written.
 */
export class Groups {
  readonly #options: GroupOptions;
  readonly #groups = new Map<string, Group>();
  readonly #places = new Map<Member, GroupPlace>();
  #waiting = 0;
  /** The number of reservations in lines. */
  #lining = 0;

  constructor(options: GroupOptions) {
    this.#options = options;
  }

  /** The number of executions that wait for a place. */
  get waiting(): number {
    return this.#waiting;
  }

  /** Reserves a place, or a place in the line. Throws a 503 if too many executions wait. */
  reserve(name: GroupName): Reservation {
    const { inside = 0, entering = 0, lining = 0, waiting = 0 } = this.#groups.get(toId(name)) ?? {};
    // One that is written before it and will wait must not be passed.
    const isWaiting = lining > 0 || inside + entering + waiting >= this.#options.limitOf(name.workflowId);
    if (isWaiting && this.#waiting + this.#lining >= this.#options.waiting)
      throw busy("Too many executions are waiting", 1);
    const group = this.#open(name);
    const add = (count: 1 | -1): void => {
      group.entering += count;
      if (!isWaiting) return;
      group.lining += count;
      this.#lining += count;
    };
    add(1);
    const release = (): void => {
      add(-1);
      this.#close(group);
    };
    return { isWaiting, release };
  }

  /** Puts an execution at the end of its line. Returns the executions that have got a place, in order. */
  enter(run: Admissible, bytes: number, name: GroupName): QueuedRun[] {
    const group = this.#open(name);
    const place: GroupPlace = { queued: [run, bytes], group, isWaiting: true, before: group.last };
    if (group.last) group.last.after = place;
    else group.first = place;
    group.last = place;
    group.waiting++;
    this.#waiting++;
    this.#places.set(run, place);
    return this.#next(group);
  }

  /** True if an execution has a place, or waits for one. */
  has(run: Admissible): boolean {
    return this.#places.has(run);
  }

  /** Gives an execution a place that it had already, whatever the limit is now. */
  hold(member: Member, name: GroupName): void {
    const group = this.#open(name);
    group.inside++;
    this.#places.set(member, { group, isWaiting: false });
  }

  /** Gives a place to another member for the same execution. Returns false if there is none. */
  replace(from: Member, to: Member): boolean {
    const place = this.#places.get(from);
    if (!place) return false;
    this.#places.delete(from);
    this.#places.set(to, place);
    return true;
  }

  /** Gives a place back, or leaves the line. Returns undefined for an execution that is in no group. */
  leave(member: Member): { wasWaiting: boolean; next: QueuedRun[] } | undefined {
    const place = this.#places.get(member);
    if (!place) return undefined;
    const { group, isWaiting: wasWaiting } = place;
    this.#places.delete(member);
    if (wasWaiting) this.#unlink(place);
    else group.inside--;
    const next = this.#next(group);
    this.#close(group);
    return { wasWaiting, next };
  }

  #next(group: Group): QueuedRun[] {
    const next: QueuedRun[] = [];
    const limit = this.#options.limitOf(group.workflowId);
    for (let place = group.first; place && group.inside < limit; place = group.first) {
      this.#unlink(place);
      group.inside++;
      if (place.queued) next.push(place.queued);
      place.queued = undefined;
    }
    return next;
  }

  #unlink(place: GroupPlace): void {
    const { group, before, after } = place;
    if (before) before.after = after;
    else group.first = after;
    if (after) after.before = before;
    else group.last = before;
    place.before = place.after = undefined;
    place.isWaiting = false;
    group.waiting--;
    this.#waiting--;
  }

  #open(name: GroupName): Group {
    const id = toId(name);
    const found = this.#groups.get(id);
    if (found) return found;
    const group: Group = { ...name, inside: 0, entering: 0, lining: 0, waiting: 0, first: undefined, last: undefined };
    this.#groups.set(id, group);
    return group;
  }
  #close(group: Group): void {
    const { inside, entering, waiting } = group;
    if (inside + entering + waiting === 0) this.#groups.delete(toId(group));
  }
}

/** An id of a workflow has no space. */
const toId = ({ workflowId, key }: GroupName): string => `${workflowId} ${key}`;
