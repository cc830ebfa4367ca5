import type { InvocationId, ObjectContext, ObjectSharedContext } from "@restatedev/restate-sdk";
import type { Renaming, StoredConversation } from "../../../engine/stored/stored-conversation.ts";
import type { ServiceParts } from "../calls.ts";
import { toSortable, toSqlText } from "../list/list-index.ts";
import type { ClearInput } from "../records.ts";
import type { StoredLine } from "./line.ts";
import type { LineTurn, TurnOrders } from "./line-turn.ts";

/**
 * The state of a conversation's object, beside its messages (`messages`) and its line (`line`):
 *
 * - info      title, times and count, as one text for SQL
 * - expiry    the scheduled removal at the end of the retention
 * - deleted   the places that a deletion has dropped, for a while: their turns are told why
 */
type ConversationInfo = Pick<StoredConversation, "title" | "updatedAt" | "messageCount"> & {
  readonly createdAt: number;
};

function toInfoText({ title, createdAt, updatedAt, messageCount }: ConversationInfo): string {
  return toSqlText([toSortable(createdAt), updatedAt, messageCount, encodeURIComponent(title.toWellFormed())]);
}
export function fromInfoText(text: string): ConversationInfo {
  const [, createdAt, updatedAt, messageCount, title = ""] = text.split("|");
  return {
    title: decodeURIComponent(title),
    createdAt: Number(createdAt),
    updatedAt: Number(updatedAt),
    messageCount: Number(messageCount),
  };
}

/** Returns a conversation as lists show it. `key` is a text of `toKeyText`. */
export function toConversation(key: string, info: ConversationInfo, isRunning: boolean): StoredConversation {
  const [, , id] = JSON.parse(key) as [string, string | null, string];
  return { id, ...info, isRunning, cursor: `${toSortable(info.createdAt)} ${key}` };
}

/** The facts of a turn that a conversation keeps. */
export interface TurnFacts {
  readonly title: string;
  readonly now: number;
}

/** The part of a conversation's object that is not about turns. It is kept for a time after its last turn, or for ever. */
export function createInfo({ calls, retention: { conversationsMs: keptMs } }: ServiceParts) {
  const tellLater = (context: ObjectContext, method: string, ms: number): Promise<InvocationId> =>
    calls.send(context, `conversation/${method}`, null, { delayMs: ms });

  /** Releases the usage of the conversation, whose object has the same key. */
  const releaseUsage = (context: ObjectContext): void => calls.tell(context, "usage/release", null);

  /** Ends a running turn: tells its runner and its readers, removes its records, and releases its usage. */
  function endTurn(context: ObjectContext, turnId = "", { orders, records, isHeard }: LineTurn): void {
    const news: TurnOrders = { isOver: true, isDeleted: true };
    if (orders) context.resolveAwakeable(orders.awakeable, news);
    const input: ClearInput = { releases: context.key };
    calls.tell(context, "records/clear", input, { key: records });
    if (isHeard) calls.tell(context, "answer/close", null, { key: turnId });
  }

  return {
    /** A turn has stored messages. */
    async update(context: ObjectContext, messageCount: number, { title, now }: TurnFacts): Promise<void> {
      const known = await readInfo(context);
      const info = known ?? { title, createdAt: now };
      context.set("info", toInfoText({ ...info, updatedAt: now, messageCount }));
      if (keptMs === undefined || (await context.get<string>("expiry")) !== null) return;
      context.set("expiry", await tellLater(context, "expire", keptMs));
    },

    async rename(context: ObjectContext, { title, from }: Renaming): Promise<boolean> {
      const info = await readInfo(context);
      if (!info || (from !== undefined && info.title !== from)) return false;
      context.set("info", toInfoText({ ...info, title }));
      return true;
    },

    /** Removes the conversation, unless a turn has run since, or runs. */
    async expire(context: ObjectContext): Promise<void> {
      if ((await context.get<string>("expiry")) !== context.request().id) return; // of a conversation that was deleted
      const info = await readInfo(context);
      const endsAt = (info?.updatedAt ?? 0) + (keptMs ?? Infinity);
      const leftMs = endsAt - (await context.date.now());
      const isBusy = (await context.get<StoredLine>("line")) !== null;
      if (leftMs <= 0 && !isBusy) releaseUsage(context);
      if (leftMs <= 0 && !isBusy) return context.clearAll();
      if (keptMs === undefined) return context.clear("expiry");
      context.set("expiry", await tellLater(context, "expire", leftMs > 0 ? leftMs : Math.min(busyMs, keptMs)));
    },

    /** Deletes the conversation. Returns the places that it has dropped. Null: there is no such conversation. */
    async remove(context: ObjectContext): Promise<readonly string[] | null> {
      const line = await context.get<StoredLine>("line");
      const expiry = await context.get<string>("expiry");
      const places = line?.places ?? [];
      if (places.length === 0 && (await context.get("info")) === null) return null;
      context.clearAll(); // one command: no part of the conversation is left
      cancel(context, line?.sweep);
      cancel(context, expiry);
      const ids = places.map(({ id }) => id);
      for (const { name, awakeable, turn } of places) {
        if (awakeable !== undefined) context.resolveAwakeable(awakeable, { deleted: ids });
        if (turn) endTurn(context, name, turn);
      }
      if (!places.some(({ turn }) => turn)) releaseUsage(context);
      if (ids.length > 0) {
        context.set("deleted", ids);
        await tellLater(context, "forget", toldMs);
      }
      return ids;
    },

    forget: async (context: ObjectContext): Promise<void> => context.clear("deleted"),
  };
}

/** The pause before an expired conversation with a turn is checked again. */
const busyMs = 60_000;
/** The time in which every replica asks for its dropped turns. */
const toldMs = 60_000;

function cancel(context: ObjectContext, invocation: string | null | undefined): void {
  if (invocation) context.invocation(invocation as InvocationId).cancel();
}

const readInfo = async (context: ObjectSharedContext): Promise<ConversationInfo | undefined> => {
  const text = await context.get<string>("info");
  return text === null ? undefined : fromInfoText(text);
};

export async function readConversation(context: ObjectSharedContext): Promise<StoredConversation | null> {
  const info = await readInfo(context);
  return info ? toConversation(context.key, info, (await context.get("line")) !== null) : null;
}

/** Returns the places that a deletion has dropped. */
export async function findDeleted(
  context: ObjectSharedContext,
  places: readonly string[] = [],
): Promise<readonly string[]> {
  if (places.length === 0) return [];
  const deleted = (await context.get<readonly string[]>("deleted")) ?? [];
  return places.filter((id) => deleted.includes(id));
}
