import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { busy } from "../../../core/error.ts";
import type { JsonText } from "../../../core/json.ts";
import { withIds, type Logger } from "../../../core/log.ts";
import type { ParkedBranch } from "../../../engine/execution.ts";
import { hasRoom, toSentId, type SentEvent, type Sending, type Share } from "../../../engine/sent-event.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { Drive, Request } from "../drive.ts";
import type { Runs } from "../runs.ts";
import type { Store } from "../store/store.ts";
import { RunEvents, type Candidate } from "./run-events.ts";
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
 * M4. Events, and waits whose time has come, count in the order of their times (`countsBefore`), also if they are seen later:
 *     after a suspension from outside, or at the next start.
 * M5. Deliveries take turns: one to many executions does not hold up the others.
 * M6. A run that may not take an event now (`mayWake`) is not asked again for it. So the mailbox is looked at after every
 *     commit that begins a wait or changes the status, and when a run is gone whose last changes were not written, or for
 *     which an event was being checked.
 */
export class Mailbox {
  readonly #options: MailboxOptions;
  /** The last offer to each run: they are made one after the other. */
  readonly #offers = new WeakMap<Drive, Promise<boolean>>();
  /** By name and key, or by the number of one execution. One that begins again while it is at work is added again. */
  readonly #deliveries = new Map<string, Delivery>();
  #isDelivering = false;
  /** The offers of `endInOrder` that are being made. */
  readonly #endings = new WeakMap<Drive, Promise<boolean>>();
  /** The events that branches of a run do not get. */
  readonly #passed = new WeakMap<Drive, Set<string>>();
  /** The refused events that are in the log, the newest of them. */
  readonly #warned = new Set<string>();

  constructor(options: MailboxOptions) {
    this.#options = options;
  }

  /** Stores an event. The executions that wait for it are continued after the result. */
  send(event: SentEvent, share: Share): Promise<Sending> {
    const { store, runs, storedEvents } = this.#options;
    runs.refuseWhenClosing();
    const { promise, resolve, reject } = Promise.withResolvers<Sending>();
    runs.writer.write<Sending | "full">({
      work: () => {
        const known = store.sentEvents.compare(event);
        if (known) return known;
        if (!hasRoom(storedEvents, share, store.sentEvents.count(event))) return "full";
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

  /** A branch waits for an event, or may take one that it could not take before (M6). */
  onWait(drive: Drive): void {
    const { status, number } = drive.committed;
    if (this.mayContinue(drive)) return this.#deliverTo(number); // the run is about to be forgotten
    if (status === "running" && this.#first(drive)) void this.#offer(drive);
  }
  /** Returns true if a run is suspended by its own branches, and a stored event may end the wait of one. */
  mayContinue(drive: Drive): boolean {
    const { status, last } = drive.committed;
    const isOwn = status === "suspended" && last?.to === "suspended" && last.pending.length > 0;
    return isOwn && this.#first(drive) !== undefined; // from outside: they count at the resume
  }
  /** A run is gone, which may not have seen events for its execution (M6). */
  onGone(number: number): void {
    this.#deliverTo(number);
  }

  /** Ends waits of a run whose time has come, and waits by events, in the order of their times. Undefined: there are not both. */
  endInOrder(drive: Drive, request?: Request): Promise<boolean> | undefined {
    const before = this.#endings.get(drive);
    if (before) return before;
    if (!drive.run.hasDueWaits || !this.#first(drive)) return undefined;
    const ending = this.#offer(drive, request).finally(() => this.#endings.delete(drive));
    this.#endings.set(drive, ending);
    return ending;
  }

  #eventsOf(drive: Drive): RunEvents {
    const passed = this.#passed.get(drive) ?? new Set();
    this.#passed.set(drive, passed);
    return new RunEvents(drive, this.#options.store.sentEvents, passed);
  }
  /** The first event that a branch of a run may take. */
  #first(drive: Drive): Candidate | undefined {
    try {
      return this.#eventsOf(drive).first();
    } catch (error) {
      return void this.#onFailure(error);
    }
  }

  #deliverTo(number: number): void {
    this.#deliver(`${number}`, (after) => (after < number ? [number] : []));
  }

  #onStored({ name, key }: SentEvent): void {
    const { store, runs } = this.#options;
    for (const drive of runs.all())
      if (drive.walk.parkedBranches().some(({ event }) => event?.name === name && (event.key ?? "") === key))
        void this.#offer(drive);
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
    } finally {
      runs.tell(number);
    }
  }

  readonly #endByEvents: EndWaits = (drive, request) => this.#offer(drive, request);

  /** Hands stored events to the branches of a run that wait for them. Resolves to whether one has continued. */
  #offer(drive: Drive, request?: Request): Promise<boolean> {
    const before = this.#offers.get(drive) ?? Promise.resolve(false);
    const offer = before.then(() => this.#offerNext(drive, request)).catch((error: unknown) => this.#onFailure(error));
    this.#offers.set(drive, offer);
    return offer;
  }

  #onFailure(error: unknown): false {
    const { runs, logger } = this.#options;
    if (!runs.isClosing) logger.error("The events could not be read; the next start tries again", { error });
    return false;
  }

  async #offerNext(drive: Drive, request?: Request): Promise<boolean> {
    const events = this.#eventsOf(drive);
    let hasContinued = false;
    while (drive.run.mayWake) {
      const next = events.first();
      const first = hasContinued ? undefined : request;
      if (drive.run.wakeDue(first, next)) {
        hasContinued = true;
        continue;
      }
      if (!next) break;
      try {
        const accepted = await this.#accept(drive, next);
        if (!accepted) events.pass(next);
        else if (drive.run.wakeByEvent(next.branch, next.head.id, accepted.value, first)) hasContinued = true;
      } catch (error) {
        events.pass(next); // or it would be tried for ever
        throw error;
      }
    }
    if (drive.isReleased) this.#deliverTo(drive.number); // it was forgotten while an event was checked
    return hasContinued;
  }

  /** Checks an event for a branch; undefined if it does not get it. */
  async #accept(drive: Drive, { branch, head }: Candidate): Promise<{ value: JsonText | undefined } | undefined> {
    const event = this.#options.store.sentEvents.find(head.id);
    if (event?.number !== head.number) return undefined; // it has expired
    const accepted = await drive.walk.acceptEvent(branch.event!, event.data);
    if ("value" in accepted) return accepted;
    this.#warn(drive, branch, event, accepted.problem);
    return undefined;
  }

  #warn({ execution }: Drive, { stepId }: ParkedBranch<Value>, { id }: SentEvent, problem: string): void {
    const key = `${execution.id}/${stepId} ${id}`;
    if (this.#warned.has(key)) return;
    this.#warned.add(key);
    if (this.#warned.size > mostWarned) this.#warned.delete(this.#warned.values().next().value!);
    const logger = withIds(this.#options.logger, {
      executionId: execution.id,
      workflowId: execution.workflowId,
      stepId,
    });
    logger.warn("An event does not match the schema of the step that waits for it", {
      event: toSentId(id),
      problem,
    });
  }
}

/** The executions that are loaded at the same time for an event. */
const atOnce = 32;
const mostWarned = 10_000;
const pauseMs = 10;
const retryMs = 1_000;
