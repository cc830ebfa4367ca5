import type { DecidedCall, FoundCall, PendingCall, WaitingCalls } from "../../../engine/stored/pending-calls.ts";
import { toSortable, toSqlText } from "../list/list-index.ts";
import { readAll, type SharedState, type State } from "../calls.ts";

/**
 * The calls of a conversation, waiting or decided. Its object has, by key:
 *
 * - call <id>     a call, as one text for SQL
 * - input <id>    its input, while it waits
 * - k<message>    the ids of the calls of a message
 * - waits         the ids of the waiting calls
 * - origin        the facts of the agent call that asked for them
 */
export const callKey = (id: string): string => `call ${id}`;
export const inputKey = (id: string): string => `input ${id}`;
const messageKey = (id: string): string => `k${JSON.stringify(id)}`;

/** The changes of calls that one store makes. */
interface CallChanges {
  /** The removed messages. */
  readonly gone: readonly string[];
  readonly decided?: readonly DecidedCall[] | undefined;
  readonly waiting?: WaitingCalls | undefined;
}

export async function changeCalls(state: State, { gone, decided = [], waiting }: CallChanges): Promise<void> {
  const { context } = state;
  if (gone.length === 0 && decided.length === 0 && !waiting) return;
  const waits = new Set((await context.get<string[]>("waits")) ?? []);
  const before = [...waits];
  const removed = (await readAll<string[]>(state, gone.map(messageKey))).flatMap((ids) => ids ?? []);
  for (const id of gone) context.clear(messageKey(id));
  for (const { id, outcome } of decided) {
    const [call] = await readCalls(state, [id]);
    if (!call || !waits.delete(id)) continue;
    context.set(callKey(id), toCallText(context.key, { ...call, outcome }));
    context.clear(inputKey(id));
  }
  // Whatever waited before the answer of a turn has an outcome, or is replaced.
  const replaced = waiting ? [...waits] : [];
  for (const id of [...removed, ...replaced]) {
    waits.delete(id);
    context.clear(callKey(id));
    context.clear(inputKey(id));
  }
  for (const call of waiting?.calls ?? []) {
    waits.add(call.id);
    context.set(callKey(call.id), toCallText(context.key, call));
    context.set(inputKey(call.id), call.input);
  }
  await addToMessage(state, waiting?.calls ?? []);
  if (waiting?.calls.length) context.set("origin", waiting.origin);
  if (waits.size > 0) context.set("waits", [...waits]);
  else if (before.length > 0) context.clear("waits");
}

/** Stores the call ids of a message, so that they are removed with it. */
async function addToMessage({ context }: State, [first, ...rest]: readonly PendingCall[]): Promise<void> {
  if (!first) return;
  const known = (await context.get<string[]>(messageKey(first.messageId))) ?? [];
  context.set(messageKey(first.messageId), [...new Set([...known, first.id, ...rest.map(({ id }) => id)])]);
}

export async function readCalls(state: SharedState, ids: readonly string[]): Promise<PendingCall[]> {
  const texts = await readAll<string>(state, ids.map(callKey));
  const inputs = await readAll<string>(state, ids.map(inputKey));
  return ids.flatMap((id, index) => {
    const text = texts[index];
    return text == null ? [] : [fromCallText(id, text, inputs[index] ?? "")];
  });
}

/** Returns a call with the facts of the agent call that asked for it. Null: there is none. */
export async function readCall(
  state: SharedState,
  id: string,
): Promise<(PendingCall & Pick<FoundCall, "origin">) | null> {
  const [call] = await readCalls(state, [id]);
  if (!call) return null;
  const origin = call.outcome ? undefined : ((await state.context.get<string>("origin")) ?? undefined);
  return { ...call, origin };
}

/** The parts of a call that SQL does not read. */
type Rest = Omit<PendingCall, "id" | "input" | "at">;

function toCallText(key: string, { at, type, messageId, toolCallId, toolName, via, outcome }: PendingCall): string {
  const [, userId] = JSON.parse(key) as [string, string | null];
  const state = outcome ? "decided" : type;
  const rest: Rest = { type, messageId, toolCallId, toolName, via, outcome };
  const body = encodeURIComponent(JSON.stringify(rest).toWellFormed());
  return toSqlText([toSortable(at), toUserText(userId ?? undefined), state, body]);
}
export function fromCallText(id: string, text: string, input: string): PendingCall {
  const [, at, , , body = ""] = text.split("|");
  return { ...(JSON.parse(decodeURIComponent(body)) as Rest), id, at: Number(at), input };
}
/** The text by which SQL finds the calls of a user. */
export const toUserText = (userId: string | undefined): string =>
  userId === undefined ? "-" : `=${encodeURIComponent(userId.toWellFormed())}`;
