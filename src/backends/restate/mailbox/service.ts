import type { ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { JsonText } from "../../../core/json.ts";
import { hasRoom, type Share } from "../../../engine/rules/event-shares.ts";
import { isSameEvent, senderOf, toSentId, type SentEvent, type Sending } from "../../../engine/stored/sent-event.ts";
import { shortHandlers, type ObjectService, type ServiceParts } from "../calls.ts";

/** Max events of one name and key. */
export const maxEvents = 1_000;
/** The executions that are told of an event by one invocation. */
const toldAtOnce = 500;

/** An event without its data. */
export interface StoredHead extends Omit<SentEvent, "data" | "name" | "key"> {
  readonly hasData: boolean;
  readonly receivedAt: number;
}
export interface SendInput {
  readonly event: SentEvent;
  /** Max kept events. The name is in messages of other builds. */
  readonly most: number;
  /** @default "half": a replica of a version that did not know shares has sent it */
  readonly share?: Share | undefined;
}

const toDataKey = (id: string): string => `d${id}`;
/** The key of a waiting execution. */
const toWaiterKey = (id: string): string => `w${id}`;

/**
 * The events of one name and key, and the waiting executions. Its state, by key: `events` has the heads of all events, the
 * oldest first, `d<id>` the data of one, and `w<id>` marks a waiting execution.
 *
 * B1. An event is stored before an execution is told of it. Executions are told by their registers, and search here for the
 *     oldest one that they may take. The row that ends a wait names it.
 * B2. An execution that begins to wait is told of the events that are here already.
 * B3. While it has events, one scheduled call removes the oldest at the end of its retention.
 */
export function createMailbox({ calls, object, reads, retention }: ServiceParts): ObjectService {
  const tellRegister = (context: ObjectContext, id: string): void =>
    calls.tell(context, "register/offer", null, { key: id });
  const tellSelf = (context: ObjectContext, method: string, input: unknown, delayMs?: number): void =>
    calls.tell(context, `mailbox/${method}`, input, { delayMs });

  return object("mailbox", shortHandlers, {
    async send(context, { event, most, share = "half" }: SendInput): Promise<Sending | "full"> {
      const events = await readHeads(context);
      // The second one was stored by a version that did not know senders.
      for (const storedId of [event.id, toSentId(event.id)]) {
        const found = events.find(({ id }) => id === storedId);
        if (!found) continue;
        const data = await readData(context, storedId);
        if (isSameEvent({ ...event, ...found, data, userId: found.userId }, event)) return "known";
        if (storedId === event.id) return "conflict";
      }
      const own = events.filter(({ id }) => senderOf(id) === senderOf(event.id)).length;
      const side = events.filter(({ isFromCode }) => isFromCode === event.isFromCode).length;
      if (!hasRoom(most, share, { own, side })) return "full";
      const { id, userId, isFromCode, data } = event;
      const hasData = data !== undefined;
      const head: StoredHead = { id, userId, isFromCode, hasData, receivedAt: await context.date.now() };
      if (hasData) context.set(toDataKey(id), data);
      context.set("events", [...events, head]);
      if (events.length === 0) tellSelf(context, "expire", null, retention.eventsMs);
      tellSelf(context, "deliver", "");
      return "stored";
    },

    /** Tells the executions that wait, from an id on. */
    async deliver(context, after: string): Promise<void> {
      const first = toWaiterKey("");
      const waiters = (await context.stateKeys()).filter((key) => key.startsWith(first)).toSorted();
      const next = waiters.filter((key) => key > first + after).slice(0, toldAtOnce);
      const ids = next.map((key) => key.slice(first.length));
      for (const id of ids) tellRegister(context, id);
      if (ids.length === toldAtOnce) tellSelf(context, "deliver", ids.at(-1));
    },

    async wait(context, id: string): Promise<void> {
      context.set(toWaiterKey(id), true);
      if ((await readHeads(context)).length > 0) tellRegister(context, id);
    },

    async forget(context, id: string): Promise<void> {
      context.clear(toWaiterKey(id));
    },

    /** Removes the events whose retention is over. */
    async expire(context): Promise<void> {
      const events = await readHeads(context);
      const since = (await context.date.now()) - retention.eventsMs;
      const kept = events.filter(({ receivedAt }) => receivedAt > since);
      for (const { id } of events.slice(0, events.length - kept.length)) context.clear(toDataKey(id));
      if (kept.length > 0) context.set("events", kept);
      else context.clear("events");
      const [oldest] = kept;
      if (oldest) tellSelf(context, "expire", null, Math.max(1, oldest.receivedAt - since));
    },

    heads: reads(readHeads),

    /** The data of an event; null if it has none, or is gone. */
    data: reads(async (context, id: string): Promise<JsonText | null> => context.get<JsonText>(toDataKey(id))),
  });
}

const readHeads = async (context: ObjectSharedContext): Promise<readonly StoredHead[]> =>
  (await context.get<readonly StoredHead[]>("events")) ?? [];
const readData = async (context: ObjectSharedContext, id: string): Promise<JsonText | undefined> =>
  (await context.get<JsonText>(toDataKey(id))) ?? undefined;

/** The key of a mailbox. A name has no spaces. */
export const toMailboxKey = ({ name, key = "" }: { name: string; key?: string | undefined }): string =>
  `${name} ${key}`;
