import type {
  InvocationId,
  ObjectContext,
  ObjectSharedContext,
  VirtualObjectDefinition,
} from "@restatedev/restate-sdk";
import type { PageOptions, StoredMessage } from "../../../engine/conversations.ts";
import { reading, shortHandlers, type Calls, type ServiceNames } from "../calls.ts";
import type { RestateSdk } from "../sdk.ts";
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
}
interface WatchInput {
  readonly id: string;
  readonly awakeable: string;
}

/** The object of one conversation: its line of turns, and its messages. Every handler is short. */
export function createConversation({ sdk, names, calls }: ConversationParts): VirtualObjectDefinition<string, unknown> {
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
        return news;
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
      async store(context: ObjectContext, { id, until, number, messages }: StoreInput): Promise<boolean> {
        const line = await readLine(context);
        const { head } = line;
        if (head?.id !== id) return false;
        if (number <= (head.stored ?? 0)) return true; // sent again, or late
        await replaceMessages(sdk, context, { name: head.name, until }, messages);
        head.stored = number;
        await writeLine(context, line);
        return true;
      },

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
