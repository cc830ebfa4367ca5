import type { UIMessageChunk } from "ai";
import { clientLeft, ServeError } from "../../core/error.ts";
import type { JsonText } from "../../core/json.ts";
import type { ConversationKey, TurnsElsewhere, TurnStart } from "../../engine/contract/conversations.ts";
import type { StoredUiMessage } from "../messages/ui-message.ts";
import { replayMs, toStoredChat } from "./ended-turns.ts";

export interface StopResult {
  readonly stopped: boolean;
  /** The id of the answer. */
  readonly messageId: string | null;
}

interface Attachment {
  readonly elsewhere: TurnsElsewhere;
  readonly key: ConversationKey;
  /** The last message that the client has. */
  readonly after: string | undefined;
  readonly signal: AbortSignal;
  readonly readLast: () => Promise<StoredUiMessage | undefined>;
  readonly now: number;
}

/** Reads the answer of a turn that another process runs, or has just ended. Undefined: there is nothing to read. */
export async function attachElsewhere(attachment: Attachment): Promise<AsyncIterable<UIMessageChunk> | undefined> {
  const { elsewhere, key, after, signal, readLast, now } = attachment;
  const last = await elsewhere.last(key);
  if (!last) return undefined;
  if (last.endedAt === undefined) {
    const texts = elsewhere.follow(key, last.id, signal);
    const { done, value } = await texts.next();
    if (!done) return toChunks(value, texts);
    if (signal.aborted) throw clientLeft();
  }
  const isOld = last.endedAt !== undefined && now - last.endedAt > replayMs;
  if (after === undefined || after === last.answerId || isOld) return undefined;
  const message = await readLast();
  return message?.id === last.answerId ? toStoredChat(message) : undefined;
}

async function* toChunks(first: JsonText, rest: AsyncGenerator<JsonText>): AsyncGenerator<UIMessageChunk> {
  yield JSON.parse(first) as UIMessageChunk; // as the other process has made it
  for await (const text of rest) yield JSON.parse(text) as UIMessageChunk;
}

/** The refusal of a call whose answer is made by another process. */
export class ContinuedElsewhere extends ServeError {
  readonly key: ConversationKey;
  constructor(key: ConversationKey) {
    super(409, "The answer continues on another replica: read the conversation", { retry: false });
    this.key = key;
  }
}

/** Stops a turn that another process runs. */
export async function stopElsewhere(
  elsewhere: TurnsElsewhere,
  key: ConversationKey,
  messageId: string | undefined,
): Promise<StopResult> {
  const last = await elsewhere.last(key);
  const turn = last?.endedAt === undefined ? last : undefined;
  refuseOther(turn, messageId);
  const stopped = turn !== undefined && (await elsewhere.stop(key, turn.id));
  if (!stopped) refuseOther(undefined, messageId);
  return { stopped, messageId: stopped ? turn.answerId : null };
}

/** Throws 409 if a message is not of the turn that runs. */
export function refuseOther(turn: TurnStart | undefined, messageId: string | undefined): void {
  if (messageId === undefined || messageId === turn?.answerId || messageId === turn?.questionId) return;
  throw new ServeError(409, "That turn has ended");
}
