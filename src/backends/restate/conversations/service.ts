import type {
  InvocationId,
  ObjectContext,
  ObjectSharedContext,
  VirtualObjectDefinition,
} from "@restatedev/restate-sdk";
import type { PageOptions, StoredMessage } from "../../../engine/conversations.ts";
import type { Renaming, StoredConversation } from "../../../engine/stored-conversation.ts";
import type { Retention } from "../../../engine/retention.ts";
import { reading, shortHandlers, type Calls, type ServiceNames } from "../calls.ts";
import type { RestateSdk } from "../sdk.ts";
import { createInfo, findDeleted, readConversation, type TurnFacts } from "./info.ts";
import { Line, sweepMs, type LineNews, type StoredLine, type SyncInput } from "./line.ts";
import {
  readHistory,
  readModels,
  readPage,
  replaceMessages,
  type PartialHistory,
  type PartialPage,
} from "./messages.ts";

export interface ConversationParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly retention: Pick<Retention, "conversationsMs">;
}
interface PlaceInput {
  /** The place that asks. */
  readonly id: string;
  readonly until?: string | undefined;
}
export interface HistoryInput extends PlaceInput {
  readonly maxBytes: number;
}
export interface ModelsInput extends Pick<PlaceInput, "id"> {
  /** The numbers of the messages. */
  readonly numbers: readonly number[];
}
export interface PageInput extends PageOptions {
  /** The index of the first text to return. */
  readonly from: number;
}
export interface StoreInput extends PlaceInput {
  /** Counts the stores of one turn. */
  readonly number: number;
  readonly messages: readonly StoredMessage[];
  readonly facts: TurnFacts;
}
interface WatchInput {
  readonly id: string;
  readonly awakeable: string;
}

/** The object of one conversation: its line of turns, and its messages. Every handler is short. */
export function createConversation(parts: ConversationParts): VirtualObjectDefinition<string, unknown> {
  const { sdk, names, calls, retention } = parts;
  const info = createInfo({ names, calls, keptMs: retention.conversationsMs });

  async function writeLine(context: ObjectContext, line: Line): Promise<void> {
    const { places, sweep } = line.settle();
    if (places.length === 0) {
      // Without it, a sweep would be left behind when the last replica is stopped.
      if (sweep !== undefined) context.invocation(sweep as InvocationId).cancel();
      return context.clear("line");
    }
    const target = { service: names.conversation, key: context.key, method: "sweep" };
    context.set<StoredLine>("line", { places, sweep: sweep ?? (await calls.send(context, target, null, sweepMs)) });
  }

  return sdk.object({
    name: names.conversation,
    options: shortHandlers,
    handlers: {
      /** Applies the changes of a replica to the line, and tells it who has the turn. */
      async sync(context: ObjectContext, input: SyncInput): Promise<LineNews> {
        const line = await readLine(context);
        const news = line.sync(input);
        await writeLine(context, line);
        return { ...news, deleted: await findDeleted(context, news.gone) };
      },

      async watch(context: ObjectContext, { id, awakeable }: WatchInput): Promise<void> {
        const line = await readLine(context);
        line.watch(id, awakeable);
        await writeLine(context, line);
      },

      async sweep(context: ObjectContext): Promise<void> {
        const line = await readLine(context);
        line.sweep(context.request().id);
        await writeLine(context, line);
      },

      /** Null: the place does not have the turn. */
      async history(context: ObjectContext, { id, until, maxBytes }: HistoryInput): Promise<PartialHistory | null> {
        const { head } = await readLine(context);
        return head?.id === id ? readHistory(sdk, context, { name: head.name, until }, maxBytes) : null;
      },

      /** Null: the place does not have the turn. */
      async models(context: ObjectContext, { id, numbers }: ModelsInput): Promise<string[] | null> {
        const { head } = await readLine(context);
        return head?.id === id ? readModels(sdk, context, numbers) : null;
      },

      /** Resolves to false if the place does not have the turn. */
      async store(context: ObjectContext, { id, until, number, messages, facts }: StoreInput): Promise<boolean> {
        const line = await readLine(context);
        const { head } = line;
        if (head?.id !== id) return false;
        if (number <= (head.stored ?? 0)) return true; // sent again, or late
        const count = await replaceMessages(sdk, context, { name: head.name, until }, messages);
        await info.note(context, count, facts);
        head.stored = number;
        await writeLine(context, line);
        return true;
      },

      rename: (context: ObjectContext, renaming: Renaming): Promise<boolean> => info.rename(context, renaming),
      expire: (context: ObjectContext): Promise<void> => info.expire(context),
      remove: (context: ObjectContext): Promise<readonly string[] | null> => info.remove(context),
      forget: (context: ObjectContext): Promise<void> => info.forget(context),

      find: sdk.handlers.object.shared(reading, (context: ObjectSharedContext): Promise<StoredConversation | null> =>
        readConversation(context),
      ),

      /** Whether a place was dropped together with its conversation. */
      isDeleted: sdk.handlers.object.shared(
        reading,
        async (context: ObjectSharedContext, id: string): Promise<boolean> =>
          (await findDeleted(context, [id])).length > 0,
      ),

      page: sdk.handlers.object.shared(
        reading,
        (context: ObjectSharedContext, { from, ...options }: PageInput): Promise<PartialPage> =>
          readPage(sdk, context, options, from),
      ),
    },
  });
}

const readLine = async (context: ObjectContext): Promise<Line> =>
  new Line(await context.get<StoredLine>("line"), (awakeable, news) => context.resolveAwakeable(awakeable, news));
