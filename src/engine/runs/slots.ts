import { busy } from "../../core/error.ts";
import {
  Groups,
  type Admissible,
  type QueuedRun,
  type GroupName,
  type GroupOptions,
  type Member,
  type Reservation,
} from "./groups.ts";

const maxPasses = 256;
const noGroups: GroupOptions = { waiting: 0, limitOf: () => Infinity };

/** Max running executions, max waiting ones, and max value bytes of the running ones. */
export interface SlotLimits {
  readonly running: number;
  readonly queued: number;
  readonly bytes: number;
}

/**
 * The slots of running executions, and the bounded queue for them, first come first served.
 *
 * An execution is admitted while fewer than `running` run, and their values together with its own take at most `bytes`. One
 * is always admitted when no other runs, however large it is. Smaller ones may pass one that is too large for now, but not
 * for ever: after `maxPasses` of them, it is next.
 *
 * An execution with a group enters the queue when it has a place in its group (`Groups`). Until then it takes no slot, and
 * delays no other.
 */
export class Slots {
  readonly #max: SlotLimits;
  readonly #groups: Groups;
  /**
   * The bytes of each. A `Map` would retain former runs: when V8 replaces its table, the old one refers to the new one. A
   * table in the old generation keeps all later ones until the next full collection.
   */
  readonly #running = new WeakMap<Admissible, number>();
  #runningCount = 0;
  readonly #queue = new Map<Admissible, number>();
  /** The queue before the queue: children of running executions, and returns of lent slots. */
  readonly #firstQueue = new Map<Admissible, number>();
  readonly #queues = [this.#firstQueue, this.#queue];
  /** Those that have lent their slot, and what waits in the queue to give it back. */
  readonly #lent = new Map<Admissible, { bytes: number; back?: Admissible; resolve?: () => void }>();
  #bytes = 0;
  /** The reservations of executions that are being written. */
  #entering = 0;
  #isOpen = false;
  /** The first run that is too large for now, and how many smaller ones were admitted before it. */
  #passed: { readonly run: Admissible | undefined; count: number } = { run: undefined, count: 0 };
  #isAdmitting = false;

  /** True if too many have passed a run that is too large for now. */
  get #isPassedEnough(): boolean {
    return this.#passed.count >= maxPasses;
  }

  /** Without `groups`, no run has one. */
  constructor(max: SlotLimits, groups: GroupOptions = noGroups) {
    this.#max = max;
    this.#groups = new Groups(groups);
  }

  /** The number of runs that have a slot. */
  get running(): number {
    return this.#runningCount;
  }
  /** The number of runs that wait for a slot, or for a place in their group. */
  get queued(): number {
    return this.#queue.size + this.#firstQueue.size + this.#groups.waiting;
  }

  /**
   * Reserves a place in the slots, in the queue or in the line of a group, or throws a 503. For children the queue is twice
   * as long: an execution must not fail because others have filled the queue.
   */
  reserve(group?: GroupName, isChild = false): Reservation {
    const inGroup = group && this.#groups.reserve(group);
    if (inGroup?.isWaiting) return inGroup;
    const { running, queued } = this.#max;
    const inside = this.#runningCount + this.#queue.size + this.#firstQueue.size + this.#lent.size + this.#entering;
    if (inside >= running + (isChild ? 2 * queued : queued)) {
      inGroup?.release();
      throw busy("Too many executions are running", 1);
    }
    this.#entering++;
    const release = (): void => {
      this.#entering--;
      inGroup?.release();
    };
    return { isWaiting: false, release };
  }

  /** Reserves a place in a group, or in its line, for an execution that wakes: the queue has no limit for it. */
  reserveWake(group: GroupName): Reservation {
    return this.#groups.reserve(group);
  }

  /** True if a run waits for a slot. */
  isQueued(run: Admissible): boolean {
    return this.#queue.has(run) || this.#firstQueue.has(run);
  }

  /** True if a run has a slot, has lent it, or waits for one or for a place in its group. */
  has(run: Admissible): boolean {
    return this.#running.has(run) || this.isQueued(run) || this.#lent.has(run) || this.#groups.has(run);
  }

  /** Gives a run a slot, or puts it into the queue or into the line of its group. */
  enter(run: Admissible, bytes: number, group?: GroupName): void {
    if (this.#running.has(run)) return;
    if (group) this.#enqueue(this.#groups.enter(run, bytes, group));
    else this.#queueOf(run).set(run, bytes);
    this.#admit();
  }

  /** Gives a member a place in its group that it had already. A run enters the queue later. */
  hold(member: Member, group: GroupName): void {
    this.#groups.hold(member, group);
  }
  /** Hands a place in a group over. Returns false if there is none. */
  replacePlace(from: Member, to: Member): boolean {
    return this.#groups.replace(from, to);
  }
  /** Gives the place of an execution back that rests without a run. */
  leavePlace(number: number): void {
    this.#enqueue(this.#groups.leave(number)?.next ?? []);
    this.#admit();
  }

  #remove(run: Admissible): void {
    if (this.#running.delete(run)) this.#runningCount--;
  }
  #enqueue(entries: readonly QueuedRun[]): void {
    for (const [run, bytes] of entries) this.#queueOf(run).set(run, bytes);
  }
  #queueOf(run: Admissible): Map<Admissible, number> {
    return run.isFirst ? this.#firstQueue : this.#queue;
  }

  /** Hands a slot over, and the place in the group. Without a slot, the other is not admitted. */
  replace(from: Admissible, to: Admissible): void {
    const bytes = this.#running.get(from);
    if (bytes === undefined) return;
    this.#groups.replace(from, to);
    this.#running.delete(from);
    this.#running.set(to, bytes);
    to.admit();
  }

  /** The values of a run take more bytes. */
  grow(run: Admissible, bytes: number): void {
    const before = this.#running.get(run);
    const lent = this.#lent.get(run);
    if (before !== undefined) this.#running.set(run, before + bytes);
    else if (lent) lent.bytes += bytes;
    else return;
    this.#bytes += bytes;
  }

  /** Begins to give slots. Until then runs are only queued. */
  open(): void {
    this.#isOpen = true;
    this.#admit();
  }

  /** Gives no more slots. */
  close(): void {
    this.#isOpen = false;
  }

  #admit(): void {
    if (this.#isAdmitting) return; // a run that leaves while it is admitted: the loop below continues
    this.#isAdmitting = true;
    let hasPassed = false;
    for (const queue of this.#queues)
      for (const [run, bytes] of queue) {
        if (!this.#isOpen || this.#runningCount >= this.#max.running || (hasPassed && this.#isPassedEnough)) break;
        if (this.#runningCount > 0 && this.#bytes + bytes > this.#max.bytes) {
          if (!hasPassed && run !== this.#passed.run) this.#passed = { run, count: 0 };
          hasPassed = true;
          continue;
        }
        if (hasPassed) this.#passed.count++;
        queue.delete(run);
        this.#running.set(run, bytes);
        this.#runningCount++;
        this.#bytes += bytes;
        run.admit();
      }
    this.#isAdmitting = false;
  }

  /** Gives a slot back, also one that is lent, but keeps the place in the group. It enters the queue again later. */
  rest(run: Admissible): void {
    const lent = this.#lent.get(run);
    const bytes = lent?.bytes ?? this.#running.get(run);
    if (bytes === undefined) return;
    if (lent?.back) this.#firstQueue.delete(lent.back);
    this.#lent.delete(run);
    this.#remove(run);
    this.#bytes -= bytes;
    lent?.resolve?.();
    this.#admit();
  }

  /**
   * Lends the slot of a run whose code waits for other executions. Its values stay in memory, so their bytes still count,
   * and it still counts as one that runs or waits (`reserve`).
   */
  lend(run: Admissible): void {
    const bytes = this.#running.get(run);
    if (bytes === undefined) return;
    this.#remove(run);
    this.#lent.set(run, { bytes });
    this.#admit();
  }

  /** Resolves when a run has its slot again. Never, if it leaves before. */
  regain(run: Admissible): Promise<void> {
    const lent = this.#lent.get(run);
    if (!lent) return Promise.resolve();
    const { promise, resolve } = Promise.withResolvers<void>();
    const admit = (): void => {
      this.#lent.delete(run);
      this.#running.delete(back);
      this.#running.set(run, lent.bytes);
      resolve();
    };
    const back: Admissible = { isFirst: true, admit };
    lent.back = back;
    lent.resolve = resolve;
    this.enter(back, 0);
    return promise;
  }

  /** Gives a slot back, or leaves the queue or the line of its group. Returns false for a run that was in none. */
  leave(run: Admissible): boolean {
    const left = this.#groups.leave(run);
    if (left) this.#enqueue(left.next);
    const wasQueued = this.#queue.delete(run) || this.#firstQueue.delete(run) || left?.wasWaiting === true;
    const lent = this.#lent.get(run);
    if (lent?.back) this.#firstQueue.delete(lent.back);
    const bytes = lent?.bytes ?? this.#running.get(run);
    if (bytes !== undefined) {
      this.#lent.delete(run);
      this.#remove(run);
      this.#bytes -= bytes;
    }
    if (bytes !== undefined || left) this.#admit();
    return wasQueued || bytes !== undefined;
  }
}
