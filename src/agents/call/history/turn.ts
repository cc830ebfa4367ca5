import type { ModelMessage } from "ai";
import {
  maxMessages,
  windowSize,
  type History,
  type HistoryRow,
  type StoredMessage,
  type Turn,
} from "../../../engine/contract/conversations.ts";
import type { DecidedCall } from "../../../engine/stored/pending-calls.ts";
import { yieldAfter } from "../../messages/long-text.ts";
import { toTitle } from "../../../engine/stored/stored-conversation.ts";
import type { StoredUiMessage } from "../../messages/ui-message.ts";
import type { ContinuedCall } from "../../tools/inner-approval.ts";
import { continueMessage, supersede } from "./continue-message.ts";
import { answerDraft, toDrafts, toStored, type Draft } from "./draft.ts";
import { invalid, withUrls } from "./files.ts";
import { toRunnable } from "../approvals/inner-requests.ts";
import type { ContinuedCalls } from "../approvals/tool-approvals.ts";
import { openCalls, partsOf, toPrompt, type ClientMessage } from "./messages.ts";
import { openApprovals, toPendingCalls, toResponses, type OpenApproval } from "../approvals/pending-calls.ts";
import type {
  CallChanges,
  ContinuedTurn,
  FreeTurn,
  Fresh,
  Row,
  Sized,
  StoredTurn,
  TurnInput,
  TurnStore,
  UndecidedTurn,
} from "./turn-parts.ts";

/** Opens a turn without a stored conversation. The prompt is what the client sent. */
export function freeTurn({ messages, trusted }: TurnInput): FreeTurn {
  const sent = messages.flatMap(({ models }) => models);
  if (!trusted) refuseApprovals(sent);
  const { role, id } = messages.at(-1)!;
  return { type: "free", prompt: toPrompt(sent), continues: role === "assistant" ? id : undefined };
}

/** Continues an answer to a question of the author's code that is not stored in a conversation. */
export function continuedTurn(question: readonly ClientMessage[], { models, outcomes }: ContinuedCall): ContinuedTurn {
  const open = openApprovals(models);
  const continued = [...models, ...toResponses(outcomes)];
  const prompt = toPrompt(toRunnable([...question.flatMap((message) => message.models), ...continued]));
  return { type: "continued", prompt, models: continued, calls: toCalls(open, outcomes) };
}

/**
 * Opens a turn of a stored conversation. Only the client's last message is new: the others can be forged and are
 * already stored.
 */
export async function storedTurn(store: TurnStore, input: TurnInput): Promise<StoredTurn | UndecidedTurn> {
  const { turn } = store;
  const { history, until: found } = await findPlace(store, input, input.messages.at(-1));
  const rows: Row[] = [];
  for (const message of history.messages) {
    rows.push(fromStored(message));
    await yieldAfter(message.models);
  }
  const fromInput = await toFresh(store, history, rows, input);
  const { drafts, replaced = 0, until = found, changes, waiting } = fromInput;
  if (waiting) {
    const storeQuestion = () => turn.store([], undefined, { ...toChanges(changes), isBeginning: true });
    return { type: "undecided", waiting, storeQuestion };
  }
  if (changes?.models) rows.push({ ...rows.pop()!, models: changes.models });
  const stored: StoredMessage[] = [];
  const fresh: Sized[] = [];
  for (const draft of drafts) {
    const message = await toStored(draft);
    stored.push(message);
    fresh.push({ models: draft.models, bytes: Buffer.byteLength(message.models) });
  }
  const shown = toShown(store, history.omitted, [...rows.slice(0, rows.length - replaced), ...fresh]);
  const prompt = toPrompt(toRunnable(shown));
  if (prompt.length === 0) throw invalid("input", "expected a user message");
  const open = drafts.at(-1)?.role === "assistant" ? drafts.at(-1) : undefined;
  const first = history.stored ? undefined : drafts.find(({ role }) => role === "user");
  return {
    type: "stored",
    prompt,
    continues: open?.id,
    before: open?.parts,
    at: store.at,
    questionId: drafts.findLast(({ role }) => role === "user")?.id,
    shown: until === undefined ? undefined : { until, fresh: (open ? drafts.slice(0, -1) : drafts).map(toUi) },
    isLastEnough: history.stored && !input.trusted,
    outcomes: fromInput.outcomes,
    results: fromInput.results,
    calls: toCalls(fromInput.open, fromInput.outcomes),
    ...toStoring(store, { drafts, changes, stored, open, until, first }),
  };
}

/** The new messages of a turn, as they are stored. */
interface NewMessages extends Pick<Fresh, "drafts" | "changes"> {
  readonly stored: readonly StoredMessage[];
  /** The answer that the turn continues. */
  readonly open: Draft | undefined;
  /** The id of the first stored message that is replaced. */
  readonly until: string | undefined;
  /** The first message of a new conversation. */
  readonly first: Draft | undefined;
}

/** Returns the functions that store the messages of a turn. */
function toStoring(
  store: TurnStore,
  { drafts, changes, stored, open, until, first }: NewMessages,
): Pick<StoredTurn, "storeQuestion" | "store"> {
  let opening = first && { message: toUi(first), title: toTitle(textOf(first)) };
  const title = opening?.title;
  const storeAll = async (...[messages, from, options]: Parameters<Turn["store"]>): Promise<void> => {
    await store.turn.store(messages, from, { ...toChanges(changes), ...options, title });
    if (opening) store.onNew(opening.message, opening.title);
    opening = undefined;
  };
  const toQuestion = (): StoredTurn["storeQuestion"] => {
    if (open) return changes && (() => storeAll([], undefined, { isBeginning: true }));
    if (until !== undefined || drafts.length === 0) return undefined;
    return () => storeAll(stored, undefined, { isBeginning: true });
  };
  return {
    storeQuestion: toQuestion(),
    async store(answer) {
      const done = open ? stored.slice(0, -1) : stored;
      const draft = await answerDraft(open, answer);
      const calls = toPendingCalls(draft, answer.at);
      const added = await toStored(draft);
      // A closed turn stores nothing, except the part of an answer that was made until then.
      if (!answer.stopped && !answer.isPartial) store.signal.throwIfAborted();
      const waits = { calls, origin: store.toOrigin() };
      // The message that it continues is stored as a whole.
      await storeAll([...done, added], until, { isLast: true, waiting: waits, ...(open && { changed: [] }) });
      return calls;
    },
  };
}

const toChanges = ({ changed, decided }: Partial<CallChanges> = {}): Partial<CallChanges> => ({ changed, decided });

function toCalls(open: readonly OpenApproval[] = [], outcomes: readonly DecidedCall[] = []): ContinuedCalls {
  const calls = new Map(open.map(({ id, toolCallId }) => [id, toolCallId]));
  return { open, decided: new Map(outcomes.map(({ id, outcome }) => [calls.get(id) ?? "", outcome])) };
}

const toUi = ({ id, role, metadata, parts }: Draft): StoredUiMessage => ({ id, role, metadata, parts });
const textOf = ({ parts }: Draft): string => parts.map((part) => (part.type === "text" ? part.text : "")).join(" ");

const toModels = (some: readonly Sized[]): ModelMessage[] => some.flatMap(({ models }) => models);

/** Returns the model messages of the window, without the oldest ones if there are too many bytes. */
function toShown(
  { maxBytes, onOmitted }: TurnStore,
  omittedBefore: number,
  messages: readonly Sized[],
): readonly ModelMessage[] {
  const first = firstWithin(maxBytes, messages);
  const shown = toWindow(toModels(messages.slice(first)), (message) => message);
  const omitted = omittedBefore + toModels(messages.slice(0, first)).length;
  const total = omittedBefore + toModels(messages).length;
  // Without the byte limit, a turn that is cut here would be sent to the model in full, even beyond `windowSize`.
  const wanted = shown[0]?.role === "user" ? Math.min(total, windowSize) : total;
  if (omitted > 0 && wanted > shown.length) onOmitted(wanted - shown.length);
  return shown;
}

/** Returns the index from which on all messages fit, at most the index of the last message. */
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
  last: ClientMessage | undefined,
): Promise<Place> {
  const edited = !trusted && last?.role === "user" ? last.id : undefined;
  let history: History | undefined;
  for (const until of [regenerate, edited]) {
    if (until === undefined) continue;
    history = await turn.history(until, admit);
    if (history.found) return { history, until };
  }
  // A history without its `until` has all stored messages before the turn.
  return { history: history ?? (await turn.history(undefined, admit)), until: undefined };
}

async function toFresh(store: TurnStore, history: History, rows: readonly Row[], input: TurnInput): Promise<Fresh> {
  const { messages, trusted, regenerate, turnName } = input;
  const toNew = (some: readonly ClientMessage[]): Fresh => ({ drafts: toDrafts(some, store.at, turnName) });
  const last = messages.at(-1);
  const isAppended = !history.found && last?.role === "user";
  const changes = isAppended ? await supersede(store, rows) : undefined;
  if (trusted) return { ...toNew(messages), changes };
  if (!history.stored && last) {
    refuseApprovals(messages.flatMap(({ models }) => models));
    const all = messages.flatMap((sent) => sent.models.map((message) => ({ sent, message })));
    const kept = new Set(toWindow(all, ({ message }) => message).map(({ sent }) => sent));
    return toNew(withoutRequests(messages.filter((sent) => kept.has(sent))));
  }
  if (last?.role !== "user") return continueMessage(store, rows, input);
  // On a regenerate, the question is already stored. A person may have written after it.
  const stored = rows.slice(rows.findLastIndex(({ role }) => role !== "user") + 1);
  const isStored = regenerate !== undefined && stored.some(({ id }) => last.id === undefined || last.id === id);
  return { ...toNew(isStored ? [] : [last]), changes };
}

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

/**
 * Removes the requests for approvals of a client's own history, and the calls that wait for them. Stored, they could be approved
 * later, and a tool would run with an input that no model has asked for.
 */
function withoutRequests(messages: readonly ClientMessage[]): ClientMessage[] {
  const { approvals } = openCalls(messages.flatMap(({ models }) => models));
  const waiting = new Set(approvals.values());
  const isLeft = ({ type, toolCallId = "" }: { type: string; toolCallId?: string }): boolean =>
    type !== "tool-approval-request" && !(type === "tool-call" && waiting.has(toolCallId));
  return messages.map((message) => {
    const models = message.models.flatMap((model): ModelMessage[] => {
      if (partsOf(model).every(isLeft)) return [model];
      const content = partsOf(model).filter(isLeft);
      return content.length > 0 ? [{ ...model, content } as ModelMessage] : [];
    });
    return { ...message, models };
  });
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

function fromStored({ id, role, models }: HistoryRow): Row {
  const parsed = JSON.parse(models) as ModelMessage | ModelMessage[]; // one message before format 10
  const all = Array.isArray(parsed) ? parsed : [parsed];
  return { id, role, models: all.map(withUrls), bytes: Buffer.byteLength(models) };
}
