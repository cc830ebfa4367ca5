import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { busy } from "../../../core/error.ts";
import { withIds, type Logger } from "../../../core/log.ts";
import type { ParkedBranch } from "../../../engine/execution.ts";
import { isSameEvent, type SentEvent, type Sending } from "../../../engine/sent-event.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { EmbeddedRun, Runs } from "../runs.ts";
import type { SentHead } from "../store/event-table.ts";
import type { Store } from "../store/store.ts";
import type { EndWaits, Sleepers } from "./sleepers.ts";

export interface MailboxOptions {
  readonly store: Store;
  readonly runs: Runs;
  readonly sleepers: Sleepers;
  readonly logger: Logger;
  /** The most events that are kept. */
  readonly storedEvents: number;
}

/** A search for executions that may take an event, a page at a time. */
interface Delivery {
  readonly find: (after: number) => readonly number[];
  after: number;
}

/**
 * The events that were sent, and the executions that wait for them.
 *
 * M1. An event is durable before an execution gets it. The row that ends the wait names it, so an execution takes it once.
 * M2. A branch gets the oldest event that matches. An event that its schema refuses is left alone.
 * M3. An event that was stored and not handed out when the process died is offered again at the next start.
 * M4. An event that came before the deadline of a wait counts first, also if both are seen later: after a suspension from
 *     outside, or at the next start. One that came after it does not count.
 * M5. Deliveries take turns: one to many executions does not hold up the others.
 */
export class Mailbox {
  readonly #options: MailboxOptions;
  /** The last offer to each run: they are made one after the other. */
  readonly #offers = new WeakMap<EmbeddedRun, Promise<boolean>>();
  /** By name and key, or by the number of one execution. One that begins again while it is at work is added again. */
  readonly #deliveries = new Map<string, Delivery>();
  #isDelivering = false;
  /** The offers of `offerFirst` that are being made. */
  readonly #firstOffers = new WeakMap<EmbeddedRun, Promise<boolean>>();
  /** The events that were offered to the branches of a run. */
  readonly #offered = new WeakMap<EmbeddedRun, Set<string>>();
  /** The refused events that are in the log, the newest of them. */
  readonly #warned = new Set<string>();

  constructor(options: MailboxOptions) {
    this.#options = options;
  }

  /** Stores an event. The executions that wait for it are continued after the result. */
  send(event: SentEvent): Promise<Sending> {
    const { store, runs, storedEvents } = this.#options;
    runs.refuseWhenClosing();
    const { promise, resolve, reject } = Promise.withResolvers<Sending>();
    runs.writer.write<Sending | "full">({
      work: () => {
        const known = store.sentEvents.find(event.id);
        if (known) return isSameEvent(known, event) ? "known" : "conflict";
        if (store.sentEvents.count() >= storedEvents) return "full";
        store.sentEvents.add(store.newNumber(), runs.clock.now(), event);
        return "stored";
      },
      done: (sending) => {
        if (sending === "full") return reject(busy("Too many events are stored", 60));
        resolve(sending);
        if (sending === "stored") this.#onStored(event);
      },
      fail: (error) => reject(runs.toAnswer(error)),
      stalled: (cause) => {
        reject(runs.toUnavailable("Storage cannot be written: nothing was sent", cause));
        return true;
      },
    });
    return promise;
  }

  /** Offers events that were stored before the process started. */
  open(): void {
    const { store } = this.#options;
    this.#deliver("", (after) => store.sentEvents.offers(after, atOnce));
  }

  /** A branch waits for an event, or may wait for one again. */
  onWait(run: EmbeddedRun): void {
    if (!run.parkedBranches().some((branch) => this.#mayTake(run, branch))) return;
    if (run.committed.status === "running") return void this.#offer(run);
    this.#deliverTo(run.committed.number); // the run is about to be forgotten
  }

  /** Offers the events that came before the deadlines of a run that are over. Undefined: there are none. */
  offerFirst(run: EmbeddedRun, done?: () => void): Promise<boolean> | undefined {
    const before = this.#firstOffers.get(run);
    if (before) return before;
    const hasNew = (branch: ParkedBranch<Value>): boolean => {
      for (const { id } of this.#find(run, branch)) if (this.#note(run, branch, id)) return true;
      return false;
    };
    if (!run.overdueWaits().some(hasNew)) return undefined;
    const offer = this.#offer(run, done).finally(() => this.#firstOffers.delete(run));
    this.#firstOffers.set(run, offer);
    return offer;
  }
  /** Notes an offer. Returns whether it is the first one of this event. */
  #note(run: EmbeddedRun, { key }: ParkedBranch<Value>, id: string): boolean {
    const offered = this.#offered.get(run) ?? new Set();
    this.#offered.set(run, offered);
    return offered.size !== offered.add(`${key} ${id}`).size;
  }

  #deliverTo(number: number): void {
    this.#deliver(`${number}`, (after) => (after < number ? [number] : []));
  }

  #onStored({ name, key }: SentEvent): void {
    const { store, runs } = this.#options;
    for (const run of runs.all())
      if (run.parkedBranches().some(({ event }) => event?.name === name && (event.key ?? "") === key))
        void this.#offer(run);
    this.#deliver(`${name} ${key}`, (after) => store.waits.waiting({ name, key }, after, atOnce));
  }

  #deliver(key: string, find: Delivery["find"]): void {
    this.#deliveries.delete(key); // from the beginning, at the end of the line
    this.#deliveries.set(key, { find, after: 0 });
    if (!this.#isDelivering) void this.#deliverAll();
  }

  async #deliverAll(): Promise<void> {
    const { runs, sleepers, logger } = this.#options;
    this.#isDelivering = true;
    await nextTurn(); // a run that is suspended is forgotten before
    for (let next = this.#takeDelivery(); next; next = this.#takeDelivery()) {
      const [key, delivery] = next;
      try {
        const numbers = delivery.find(delivery.after);
        await Promise.all(numbers.map((number) => this.#offerTo(number)));
        delivery.after = numbers.at(-1) ?? delivery.after;
        if (numbers.length > 0 && !this.#deliveries.has(key)) this.#deliveries.set(key, delivery);
      } catch (error) {
        if (!runs.isClosing) logger.error("An event could not be handed out; the next start tries again", { error });
      }
      while (!runs.isClosing && !sleepers.hasRoom) await sleep(pauseMs);
    }
    this.#isDelivering = false;
  }

  #takeDelivery(): [string, Delivery] | undefined {
    const [first] = this.#deliveries;
    if (!first || this.#options.runs.isClosing) return undefined;
    this.#deliveries.delete(first[0]);
    return first;
  }

  /** Offers stored events to an execution that has no run. */
  async #offerTo(number: number): Promise<void> {
    const { runs, sleepers, logger } = this.#options;
    try {
      await sleepers.wake(number, this.#endByEvents);
    } catch (error) {
      if (runs.isClosing) return;
      logger.warn("An event could not be handed out; it is tried again soon", { error });
      runs.clock.setTimeout(() => !runs.isClosing && this.#deliverTo(number), retryMs).unref();
    }
  }

  readonly #endByEvents: EndWaits = (run, done) => this.#offer(run, done);

  /** Hands stored events to the branches of a run that wait for them. Resolves to whether one has continued. */
  #offer(run: EmbeddedRun, done?: () => void): Promise<boolean> {
    const before = this.#offers.get(run) ?? Promise.resolve(false);
    const offer = before.then(() => this.#offerNext(run, done)).catch((error: unknown) => this.#onFailure(error));
    this.#offers.set(run, offer);
    return offer;
  }

  #onFailure(error: unknown): false {
    const { runs, logger } = this.#options;
    if (!runs.isClosing) logger.error("The events could not be read; the next start tries again", { error });
    return false;
  }

  async #offerNext(run: EmbeddedRun, done?: () => void): Promise<boolean> {
    const { store } = this.#options;
    let hasContinued = false;
    for (const branch of run.parkedBranches()) {
      for (const { number, id } of this.#find(run, branch)) {
        if (!run.mayWake) return hasContinued;
        const event = store.sentEvents.find(id);
        if (event?.number !== number) continue; // it has expired
        this.#note(run, branch, id);
        const accepted = await run.acceptEvent(branch.event!, event.data);
        if ("problem" in accepted) this.#warn(run, branch, event, accepted.problem);
        else if (run.wakeByEvent(branch, id, accepted.value, hasContinued ? undefined : done)) {
          hasContinued = true;
          break;
        }
      }
    }
    return hasContinued;
  }

  /** The stored events that a branch may take, oldest first. */
  *#find(run: EmbeddedRun, branch: ParkedBranch<Value>): Generator<SentHead> {
    const { event: filter, due } = branch;
    if (!filter) return;
    const { store } = this.#options;
    const last = due && run.isOverdue(branch) ? due.at : Infinity;
    const { number: began, execution } = run.committed;
    let after = filter.isAnyAge ? 0 : began;
    for (let page = store.sentEvents.after(filter, after, pageSize); page.length > 0;) {
      for (const head of page) {
        const isOwn = head.userId === undefined || head.userId === execution.userId;
        if (head.at <= last && isOwn && (!filter.isFromCode || head.isFromCode) && !run.hasTaken(head.id)) yield head;
      }
      after = page.at(-1)!.number;
      page = page.length < pageSize ? [] : store.sentEvents.after(filter, after, pageSize);
    }
  }

  #mayTake(run: EmbeddedRun, branch: ParkedBranch<Value>): boolean {
    for (const _ of this.#find(run, branch)) return true;
    return false;
  }

  #warn({ execution }: EmbeddedRun, { stepId }: ParkedBranch<Value>, { id }: SentEvent, problem: string): void {
    const key = `${execution.id}/${stepId} ${id}`;
    if (this.#warned.has(key)) return;
    this.#warned.add(key);
    if (this.#warned.size > mostWarned) this.#warned.delete(this.#warned.values().next().value!);
    const logger = withIds(this.#options.logger, {
      executionId: execution.id,
      workflowId: execution.workflowId,
      stepId,
    });
    logger.warn("An event does not match the schema of the step that waits for it", { event: id, problem });
  }
}

/** The executions that are loaded at the same time for an event. */
const atOnce = 32;
/** The stored events that are looked at together. Their data is read one by one. */
const pageSize = 100;
const mostWarned = 10_000;
const pauseMs = 10;
const retryMs = 1_000;
