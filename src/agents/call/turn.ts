import type { ModelMessage } from "ai";
import {
  maxMessages,
  windowSize,
  type AdmitHistory,
  type History,
  type HistoryRow,
  type StoredMessage,
  type Turn,
} from "../../engine/conversations.ts";
import { yieldAfter } from "../messages/long-text.ts";
import { toTitle } from "../../engine/stored-conversation.ts";
import type { StoredUiMessage, UiParts } from "../messages/ui-message.ts";
import { answerDraft, toDrafts, toStored, withModels, type Draft, type TurnAnswer } from "./draft.ts";
import { invalid, withUrls } from "./files.ts";
import { openCalls, partsOf, toPrompt, type ClientMessage } from "./messages.ts";

/** The input of a turn of a conversation. */
export interface TurnInput {
  /** The messages that the client sent: its whole history, or only the new ones. */
  readonly messages: readonly ClientMessage[];
  /** The id of the message to regenerate. It is replaced, together with all messages after it. */
  readonly regenerate?: string | undefined;
  /** True if the messages come from the author's code: all of them are new, and none is forged. */
  readonly trusted?: boolean | undefined;
  /** The name of a turn that may run again, such as that of a step. A second run replaces the messages of the first. */
  readonly turnName?: string | undefined;
  /** The time of the messages of a turn that runs again. @default now */
  readonly at?: number | undefined;
}

/** A turn that is ready for the model. */
export interface OpenTurn {
  readonly prompt: ModelMessage[];
  /** The id of the assistant message that the answer continues, if the client sent results of its own tools. */
  readonly continues?: string | undefined;
  /** Stores the messages of the turn. Undefined if it has no stored conversation. */
  readonly store?: ((answer: TurnAnswer) => Promise<void>) | undefined;
  /** Stores the messages of the user, before the answer. Undefined if there are none, or if they replace others. */
  readonly storeQuestion?: (() => Promise<void>) | undefined;
  /** The id of the user's message. */
  readonly questionId?: string | undefined;
  /** The time of the user's message. */
  readonly at?: number | undefined;
  /** The parts of the message that the answer continues, with the results that the client sent. */
  readonly before?: UiParts | undefined;
  /** The messages that a reader is shown before the answer. @default those of the conversation */
  readonly shown?: ShownMessages | undefined;
  /** True if only the last message of the client is needed: the others are stored, or count for nothing. */
  readonly isLastEnough?: boolean;
}

/** The messages before an answer that replaces others: the stored ones before `until`, then the new ones. */
export interface ShownMessages {
  readonly until: string;
  readonly fresh: readonly StoredUiMessage[];
}

/** A stored conversation, as a turn uses it. */
export interface TurnStore {
  readonly turn: Turn;
  /** Awaited before the messages of the conversation are loaded. */
  readonly admit: AdmitHistory;
  /** Reads the last stored message. */
  readonly readLast: () => Promise<StoredUiMessage | undefined>;
  /** The time at which the turn began. */
  readonly at: number;
  /** Aborted when the turn is ended early. */
  readonly signal: AbortSignal;
  /** The most bytes of messages in the prompt. The last message is always in it. */
  readonly maxBytes: number;
  /** Called with the number of model messages that were left out because of `maxBytes`, if there are any. */
  readonly onOmitted: (count: number) => void;
  /** Called when the first message of a new conversation is stored. */
  readonly onNew: (message: StoredUiMessage, title: string) => void;
}

/** Opens a turn without a stored conversation. The prompt is what the client sent. */
export function freeTurn({ messages, trusted }: TurnInput): OpenTurn {
  const sent = messages.flatMap(({ models }) => models);
  if (!trusted) refuseApprovals(sent);
  const { role, id } = messages.at(-1)!;
  return { prompt: toPrompt(sent), continues: role === "assistant" ? id : undefined };
}

/**
 * Opens a turn of a stored conversation. Only the client's last message is new: the others can be forged and are
 * already stored.
 */
export async function storedTurn(store: TurnStore, input: TurnInput): Promise<OpenTurn> {
  const { turn } = store;
  const last = input.messages.at(-1)!;
  const { history, until: found } = await findPlace(store, input, last);
  const rows: Row[] = [];
  for (const message of history.messages) {
    rows.push(fromStored(message));
    await yieldAfter(message.models);
  }
  const { drafts, replaced = 0, until = found } = await toFresh(store, history, rows, input);
  const stored: StoredMessage[] = [];
  for (const draft of drafts) stored.push(await toStored(draft));
  const fresh = drafts.map(({ models }, index) => ({ models, bytes: Buffer.byteLength(stored[index]!.models) }));
  const shown = toShown(store, history.omitted, [...rows.slice(0, rows.length - replaced), ...fresh]);
  const prompt = toPrompt(shown);
  if (prompt.length === 0) throw invalid("input", "expected a user message");
  const open = drafts.at(-1)?.role === "assistant" ? drafts.at(-1) : undefined;
  const first = history.stored ? undefined : drafts.find(({ role }) => role === "user");
  const title = first && toTitle(textOf(first));
  let isNew = first !== undefined;
  const storeAll = async (...[messages, from, options]: Parameters<Turn["store"]>): Promise<void> => {
    await turn.store(messages, from, { ...options, title });
    if (isNew) store.onNew(toUi(first!), title!); // both are known
    isNew = false;
  };
  return {
    prompt,
    continues: open?.id,
    before: open?.parts,
    at: store.at,
    questionId: drafts.findLast(({ role }) => role === "user")?.id,
    shown: until === undefined ? undefined : { until, fresh: (open ? drafts.slice(0, -1) : drafts).map(toUi) },
    isLastEnough: history.stored && !input.trusted,
    storeQuestion:
      open || until !== undefined || drafts.length === 0
        ? undefined
        : () => storeAll(stored, undefined, { isBeginning: true }),
    store: async (answer) => {
      const done = open ? stored.slice(0, -1) : stored;
      const added = await toStored(await answerDraft(open, answer));
      // The turn is closed, and the next one has begun; or its answer is stored as far as it was made.
      if (!answer.stopped) store.signal.throwIfAborted();
      await storeAll([...done, added], until, { isLast: true });
    },
  };
}

const toUi = ({ id, role, metadata, parts }: Draft): StoredUiMessage => ({ id, role, metadata, parts });
const textOf = ({ parts }: Draft): string => parts.map((part) => (part.type === "text" ? part.text : "")).join(" ");

/** Returns the model messages of the window, without those of the oldest messages if there are too many bytes. */
function toShown(
  { maxBytes, onOmitted }: TurnStore,
  omittedBefore: number,
  messages: readonly Sized[],
): readonly ModelMessage[] {
  const first = firstWithin(maxBytes, messages);
  const toModels = (some: readonly Sized[]): ModelMessage[] => some.flatMap(({ models }) => models);
  const shown = toWindow(toModels(messages.slice(first)), (message) => message);
  const omitted = omittedBefore + toModels(messages.slice(0, first)).length;
  const total = omittedBefore + toModels(messages).length;
  // A turn that has lost its beginning would be shown whole. It may be longer than the window.
  const wanted = shown[0]?.role === "user" ? Math.min(total, windowSize) : total;
  if (omitted > 0 && wanted > shown.length) onOmitted(wanted - shown.length);
  return shown;
}

/** The model messages of one message, and their size as JSON. */
interface Sized {
  readonly models: readonly ModelMessage[];
  readonly bytes: number;
}

/** Returns the index of the first message from which on all fit, at most that of the last message. */
function firstWithin(maxBytes: number, messages: readonly Sized[]): number {
  let first = Math.max(messages.length - 1, 0);
  let bytes = messages[first]?.bytes ?? 0;
  while (first > 0 && (bytes += messages[first - 1]!.bytes) <= maxBytes) first--;
  return first;
}

interface Place {
  readonly history: History;
  /** The id of the first message that the turn replaces. */
  readonly until: string | undefined;
}

/** Finds the position of the turn: after all stored messages, or at a stored message that is regenerated or edited. */
async function findPlace(
  { turn, admit }: TurnStore,
  { regenerate, trusted }: TurnInput,
  last: ClientMessage,
): Promise<Place> {
  const edited = !trusted && last.role === "user" ? last.id : undefined;
  let history: History | undefined;
  for (const until of [regenerate, edited]) {
    if (until === undefined) continue;
    history = await turn.history(until, admit);
    if (history.found) return { history, until };
  }
  // A history without its `until` has all stored messages before the turn.
  return { history: history ?? (await turn.history(undefined, admit)), until: undefined };
}

/** The new messages of a turn. */
interface Fresh {
  readonly drafts: readonly Draft[];
  /** The number of rows at the end that the first draft replaces. It has their model messages. @default 0 */
  readonly replaced?: number | undefined;
  /** The id of the stored message that the first draft replaces. */
  readonly until?: string | undefined;
}

async function toFresh(store: TurnStore, history: History, rows: readonly Row[], input: TurnInput): Promise<Fresh> {
  const { messages, trusted, regenerate, turnName } = input;
  const toNew = (some: readonly ClientMessage[]): Fresh => ({ drafts: toDrafts(some, store.at, turnName) });
  if (trusted) return toNew(messages);
  if (!history.stored) {
    refuseApprovals(messages.flatMap(({ models }) => models));
    const all = messages.flatMap((sent) => sent.models.map((message) => ({ sent, message })));
    const kept = new Set(toWindow(all, ({ message }) => message).map(({ sent }) => sent));
    return toNew(messages.filter((sent) => kept.has(sent)));
  }
  const last = messages.at(-1)!;
  if (last.role === "user") {
    const stored = rows.at(-1);
    // On a regenerate, the question is already stored.
    const isStored = regenerate !== undefined && stored?.role === "user" && (last.id ?? stored.id) === stored.id;
    return toNew(isStored ? [] : [last]);
  }
  const before = rows.flatMap(({ models }) => models);
  const answers = toAnswers(before, last);
  if (answers.length === 0) {
    throw invalid("input", "the last message must be a user message, or contain results of tools that were called");
  }
  return toContinued(store, rows, { ...last, models: answers }, turnName);
}

/** Continues the last stored message with results and approvals of its tools. */
async function toContinued(
  { readLast, at }: TurnStore,
  rows: readonly Row[],
  answers: ClientMessage,
  turnName: string | undefined,
): Promise<Fresh> {
  const message = await readLast();
  const id = rows.at(-1)?.id;
  const own = rows.slice(rows.findIndex((row) => row.id === id));
  // A message of an older release is several rows, and may have no id by which it could be replaced.
  const isReplaced = id !== undefined && message?.id === id && own.every((row) => row.id === id);
  if (!isReplaced) return { drafts: toDrafts([{ ...answers, parts: undefined }], at, turnName) };
  const models = own.flatMap((row) => row.models);
  const { parts, metadata = { createdAt: null } } = message;
  const continued = withModels({ id, role: "assistant", parts, models, metadata }, answers.models);
  return { drafts: [continued], replaced: own.length, until: id };
}

/** Returns the tool results and approvals that belong to a known call, and drops all others. */
function toAnswers(before: readonly ModelMessage[], last: ClientMessage): ModelMessage[] {
  // A later message of the user closes all calls before it.
  const since = before.findLastIndex(({ role }) => role === "user");
  const { calls, approvals } = openCalls(before.slice(since + 1));
  const results = new Set(last.models.flatMap(partsOf).map(resultOf));
  // The server runs the tool of an approved call, so it accepts no result for it. A client that sends an approval
  // together with a result has seen a turn that ran the tool and then failed. That approval is dropped: the server must
  // not decide to run the tool a second time.
  const isDecided = (call: string | undefined, approved: boolean): boolean =>
    call !== undefined && !(approved && results.has(call));
  const isAnswered = (call: string, tool: string): boolean =>
    calls.get(call) === tool && ![...approvals.values()].includes(call);
  return last.models.flatMap((message) => {
    if (message.role !== "tool") return [];
    const content = message.content.filter((part) =>
      part.type === "tool-result"
        ? isAnswered(part.toolCallId, part.toolName)
        : isDecided(approvals.get(part.approvalId), part.approved),
    );
    return content.length > 0 ? [{ ...message, content }] : [];
  });
}

const resultOf = ({ type, toolCallId }: { type: string; toolCallId?: string }): string | undefined =>
  type === "tool-result" ? toolCallId : undefined;

/**
 * Rejects approvals outside a stored conversation. An approval runs a tool with the input in the same messages, and
 * only stored input is known to come from the model.
 */
function refuseApprovals(messages: readonly ModelMessage[]): void {
  const types = messages.flatMap(partsOf).map(({ type }) => type);
  if (types.includes("tool-approval-response")) {
    throw invalid("input", "a tool can be approved only in a stored conversation");
  }
}

function toWindow<T>(all: readonly T[], toMessage: (one: T) => ModelMessage): readonly T[] {
  const isUser = (one: T): boolean => toMessage(one).role === "user";
  const last = all.slice(-windowSize);
  const user = last.findIndex(isUser);
  if (user >= 0) return last.slice(user);
  // The turn is longer than the window. It is kept whole, because the end has no meaning without the beginning.
  const turn = all.slice(Math.max(all.findLastIndex(isUser), 0));
  if (turn.length > maxMessages) throw invalid("input", `more than ${maxMessages} messages without a user message`);
  return turn;
}

/** A stored row, with its model messages. */
interface Row extends Sized {
  readonly id?: string | undefined;
  readonly role: string;
}
function fromStored({ id, role, models }: HistoryRow): Row {
  const parsed = JSON.parse(models) as ModelMessage | ModelMessage[]; // one message before format 10
  const all = Array.isArray(parsed) ? parsed : [parsed];
  return { id, role, models: all.map(withUrls), bytes: Buffer.byteLength(models) };
}
