import { setImmediate as nextTurn, setTimeout as sleep } from "node:timers/promises";
import { busy } from "../../../core/error.ts";
import type { ParkedBranch } from "../../../engine/execution.ts";
import { mayTake, type EventHead } from "../../../engine/rules/take-events.ts";
import { findTakes, type EventReader, type FoundTakes, RefusedEvents } from "../../../engine/runs/find-takes.ts";
import { hasRoom, type Share } from "../../../engine/rules/event-shares.ts";
import type { SentEvent, Sending } from "../../../engine/stored/sent-event.ts";
import type { Value } from "../../../engine/walk/value.ts";
import type { Drive } from "../drive.ts";
import type { EngineParts } from "../engine-parts.ts";
import type { Sleepers } from "./sleepers.ts";

interface MailboxParts extends EngineParts {
  readonly sleepers: Sleepers;
  /** Max events that are kept. */
  readonly storedEvents: number;
}

/** A search for executions that may take an event, a page at a time. */
interface Delivery {
  readonly find: (after: number) => readonly number[];
  after: number;
}

/**
 * The sent events, and the executions that wait for them.
 *
 * M1. An event is durable before an execution gets it. The row that ends the wait names it, so an execution takes it once.
 * M2. A branch gets the oldest event that matches. An event that its schema refuses is left alone.
 * M3. An event that was stored and not handed out when the process died is offered again at the next start.
 * M4. Events, and waits whose time has come, count in the order of their times (`countsBefore`), also if they are seen later:
 *     after a suspension by a command, or at the next start.
 * M5. Deliveries take turns: one to many executions does not hold up the others.
 * M6. A drive that may not take an event now is not told of it again. So the mailbox is looked at after every commit that
 *     begins a wait or changes the status, and when a drive is gone whose last changes were not written, or for which an
 *     event was being checked.
 */
export class Mailbox {
  readonly #parts: MailboxParts;
  /** By name and key, or by the number of one execution. One that begins again while it is at work is added again. */
  readonly #deliveries = new Map<string, Delivery>();
  #isDelivering = false;
  /** The events that a branch is done with: its schema has refused them, or they could not be read. */
  readonly #passed = new WeakMap<Drive, Set<string>>();
  readonly #refused: RefusedEvents;

  constructor(parts: MailboxParts) {
    this.#parts = parts;
    this.#refused = new RefusedEvents(parts.logger);
  }

  /** Stores an event. The executions that wait for it are continued after the result. */
  async send(event: SentEvent, share: Share): Promise<Sending> {
    const { store, drives, storedEvents } = this.#parts;
    drives.refuseWhenClosing();
    const write = (): Sending | "full" => {
      const known = store.sentEvents.compare(event);
      if (known) return known;
      if (!hasRoom(storedEvents, share, store.sentEvents.count(event))) return "full";
      store.sentEvents.add(store.newNumber(), drives.clock.now(), event);
      return "stored";
    };
    const sending = await drives.request(write, "nothing was sent", (made) => {
      if (made === "stored") this.#onStored(event);
    });
    if (sending === "full") throw busy("Too many events are stored", 60);
    return sending;
  }

  /** Offers events that were stored before the process started. */
  open(): void {
    const { store } = this.#parts;
    this.#deliver("", (after) => store.sentEvents.offers(after, atOnce));
  }

  /** A branch waits for an event, or may take one that it could not take before (M6). */
  onWait(drive: Drive): void {
    if (this.mayContinue(drive)) return this.#deliverTo(drive.number); // the drive is gone, or about to be
    if (drive.committed.status === "running" && this.#hasEvents(drive)) drive.run.news();
  }
  /** Returns true if an execution is suspended by its own branches, and a stored event may end the wait of one. */
  mayContinue(drive: Drive): boolean {
    const { status, last } = drive.committed;
    const isOwn = status === "suspended" && last?.to === "suspended" && last.pending.length > 0;
    return isOwn && this.#hasEvents(drive); // after a suspension by a command, events count at the resume
  }
  /** A drive is gone, which may not have seen events for its execution (M6). */
  onGone(number: number): void {
    this.#deliverTo(number);
  }

  /** Finds the events that branches may take. Never rejects. */
  async find(drive: Drive): Promise<FoundTakes> {
    const { execution, walk, run } = drive;
    try {
      return await findTakes(this.#readerOf(drive), { execution, walk, hasTaken: (event) => run.hasTaken(event) });
    } catch (error) {
      this.#onFailure(error);
      return { takes: [] };
    } finally {
      if (drive.isReleased) this.#deliverTo(drive.number); // it was forgotten while an event was checked
    }
  }

  #hasEvents(drive: Drive): boolean {
    const { execution, run } = drive;
    try {
      for (const branch of drive.walk.parkedBranches())
        if (branch.event)
          for (const head of this.#heads(drive, branch))
            if (mayTake(branch.event, head, execution) && !run.hasTaken(head.id)) return true;
    } catch (error) {
      this.#onFailure(error);
    }
    return false;
  }

  #readerOf(drive: Drive): EventReader<EventHead> {
    const { store } = this.#parts;
    const pass = (head: EventHead, branch: ParkedBranch<Value>): void => {
      const passed = this.#passed.get(drive) ?? new Set();
      this.#passed.set(drive, passed.add(toId(branch, head)));
    };
    return {
      heads: (branch) => this.#heads(drive, branch),
      data: async (head, branch) => {
        try {
          const event = store.sentEvents.find(head.id);
          return event?.number === head.order ? { text: event.data } : undefined; // another one: it has expired
        } catch (error) {
          pass(head, branch); // or it would be tried for ever
          throw error;
        }
      },
      refused: (head, branch, problem) => {
        pass(head, branch);
        this.#refused.logOnce(drive.execution, branch.stepId, head.id, problem);
      },
    };
  }

  /** The events for a branch, in the order in which they were stored. It sees no later ones. */
  *#heads(drive: Drive, branch: ParkedBranch<Value>): Generator<EventHead> {
    const { sentEvents } = this.#parts.store;
    const began = drive.number;
    const filter = branch.event!;
    let after = filter.isAnyAge ? 0 : began;
    for (let page = sentEvents.after(filter, after, pageSize); page.length > 0;) {
      for (const { number, ...head } of page) {
        const found = { ...head, order: number, isOlder: number <= began };
        if (!this.#passed.get(drive)?.has(toId(branch, found))) yield found;
      }
      after = page.at(-1)!.number;
      page = page.length < pageSize ? [] : sentEvents.after(filter, after, pageSize);
    }
  }

  #deliverTo(number: number): void {
    this.#deliver(`${number}`, (after) => (after < number ? [number] : []));
  }

  #onStored({ name, key }: SentEvent): void {
    const { store, drives } = this.#parts;
    for (const drive of drives.all())
      if (drive.walk.parkedBranches().some(({ event }) => event?.name === name && (event.key ?? "") === key))
        drive.run.news();
    this.#deliver(`${name} ${key}`, (after) => store.waits.waiting({ name, key }, after, atOnce));
  }

  #deliver(key: string, find: Delivery["find"]): void {
    this.#deliveries.delete(key); // from the beginning, at the end of the line
    this.#deliveries.set(key, { find, after: 0 });
    if (!this.#isDelivering) void this.#deliverAll();
  }

  async #deliverAll(): Promise<void> {
    const { drives, sleepers, logger } = this.#parts;
    this.#isDelivering = true;
    await nextTurn(); // a suspended drive is forgotten before
    for (let next = this.#takeDelivery(); next; next = this.#takeDelivery()) {
      const [key, delivery] = next;
      try {
        const numbers = delivery.find(delivery.after);
        await Promise.all(numbers.map((number) => this.#offerTo(number)));
        delivery.after = numbers.at(-1) ?? delivery.after;
        if (numbers.length > 0 && !this.#deliveries.has(key)) this.#deliveries.set(key, delivery);
      } catch (error) {
        if (!drives.isClosing) logger.error("An event could not be handed out; the next start tries again", { error });
      }
      while (!drives.isClosing && !sleepers.hasRoom) await sleep(pauseMs);
    }
    this.#isDelivering = false;
  }

  #takeDelivery(): [string, Delivery] | undefined {
    const [first] = this.#deliveries;
    if (!first || this.#parts.drives.isClosing) return undefined;
    this.#deliveries.delete(first[0]);
    return first;
  }

  /** Offers stored events to an execution that has no drive. */
  async #offerTo(number: number): Promise<void> {
    const { drives, sleepers, logger } = this.#parts;
    try {
      await sleepers.wake(number);
    } catch (error) {
      if (drives.isClosing) return;
      logger.warn("An event could not be handed out; it is tried again soon", { error });
      drives.clock.setTimeout(() => !drives.isClosing && this.#deliverTo(number), retryMs).unref();
    } finally {
      drives.publisher.announce(number);
    }
  }

  #onFailure(error: unknown): void {
    const { drives, logger } = this.#parts;
    if (!drives.isClosing) logger.error("The events could not be read; the next start tries again", { error });
  }
}

/** The executions that are loaded at the same time for an event. */
const atOnce = 32;
/** The stored events that are looked at together. Their data is read one by one. */
const pageSize = 100;
const toId = ({ key }: ParkedBranch<Value>, { id, order }: EventHead): string => `${key} ${order} ${id}`;
const pauseMs = 10;
const retryMs = 1_000;
