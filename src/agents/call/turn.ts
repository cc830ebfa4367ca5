import type { ModelMessage } from "ai";
import { maxMessages, windowSize, type History, type StoredMessage, type Turn } from "../../engine/conversations.ts";
import { invalid, withUrls } from "./files.ts";
import { openCalls, partsOf, toPrompt, type ClientMessage, type PromptMessage } from "./messages.ts";

/** The input of a turn of a conversation. */
export interface TurnInput {
  /** The messages that the client sent: its whole history, or only the new ones. */
  readonly messages: readonly ClientMessage[];
  /** The id of the message to regenerate. It is replaced, together with all messages after it. */
  readonly regenerate?: string | undefined;
  /** True if the messages come from the author's code: all of them are new, and none is forged. */
  readonly trusted?: boolean | undefined;
}

/** A turn that is ready for the model. */
export interface OpenTurn {
  readonly prompt: ModelMessage[];
  /** The id of the assistant message that the answer continues, if the client sent results of its own tools. */
  readonly continues?: string | undefined;
  /** Stores the messages of the turn. The answer gets this id. */
  store(answer: readonly ModelMessage[], id: () => string): Promise<void>;
}

/** Opens a turn without a stored conversation. The prompt is what the client sent. */
export function freeTurn({ messages, trusted }: TurnInput): OpenTurn {
  const sent = messages.flat();
  if (!trusted) refuseApprovals(sent);
  const prompt = toPrompt(sent.map(({ message }) => message));
  return { prompt, continues: continuedBy(messages.at(-1)!), store: async () => {} };
}

/**
 * Opens a turn of a stored conversation. Only the client's last message is new: the others can be forged and are
 * already stored.
 */
export async function storedTurn(turn: Turn, input: TurnInput): Promise<OpenTurn> {
  const last = input.messages.at(-1)!;
  const { history, until } = await findPlace(turn, input, last);
  const before = history.messages.map(fromStored);
  const fresh = toFresh(history, before, last, input);
  const prompt = toPrompt(toWindow([...before, ...fresh]).map(({ message }) => message));
  if (prompt.length === 0) throw invalid("input", "expected a user message");
  return {
    prompt,
    continues: continuedBy(last),
    store: (answer, id) =>
      turn.store([...fresh, ...answer.map((message) => ({ id: id(), message }))].map(toStored), until),
  };
}

/** Finds the position of the turn: after all stored messages, or at a stored message that is regenerated or edited. */
async function findPlace(
  turn: Turn,
  { regenerate, trusted }: TurnInput,
  last: ClientMessage,
): Promise<{ history: History; until: string | undefined }> {
  const [first] = last;
  const edited = !trusted && first?.message.role === "user" ? first.id : undefined;
  let history: History | undefined;
  for (const until of [regenerate, edited]) {
    if (until === undefined) continue;
    history = await turn.history(until);
    if (history.found) return { history, until };
  }
  // A history without its `until` has all stored messages before the turn.
  return { history: history ?? (await turn.history()), until: undefined };
}

function toFresh(
  history: History,
  before: PromptMessage[],
  last: ClientMessage,
  input: TurnInput,
): readonly PromptMessage[] {
  const sent = input.messages.flat();
  if (input.trusted) return sent;
  if (!history.stored) {
    refuseApprovals(sent);
    return toWindow(sent);
  }
  const [first] = last;
  if (first?.message.role === "user") {
    const stored = before.at(-1);
    // On a regenerate, the question is already stored.
    const isStored = input.regenerate !== undefined && stored?.message.role === "user";
    return isStored && (first.id ?? stored.id) === stored.id ? [] : last;
  }
  const answers = toAnswers(before, last);
  if (answers.length === 0) {
    throw invalid("input", "the last message must be a user message, or contain results of tools that were called");
  }
  return answers;
}

/** Returns the id of the assistant message that contains the tool results. The answer continues that message. */
const continuedBy = ([first]: ClientMessage): string | undefined =>
  first?.message.role === "assistant" ? first.id : undefined;

/** Returns the tool results and approvals that belong to a known call, and drops all others. */
function toAnswers(before: readonly PromptMessage[], last: ClientMessage): PromptMessage[] {
  // A later message of the user closes all calls before it.
  const since = before.findLastIndex(({ message }) => message.role === "user");
  const { calls, approvals } = openCalls(before.slice(since + 1).map(({ message }) => message));
  const results = new Set(last.flatMap(({ message }) => partsOf(message)).map(resultOf));
  // The server runs the tool of an approved call, so it accepts no result for it. A client that sends an approval
  // together with a result has seen a turn that ran the tool and then failed. That approval is dropped: the server must
  // not decide to run the tool a second time.
  const isDecided = (call: string | undefined, approved: boolean): boolean =>
    call !== undefined && !(approved && results.has(call));
  const isAnswered = (call: string, tool: string): boolean =>
    calls.get(call) === tool && ![...approvals.values()].includes(call);
  return last.flatMap(({ id, message }) => {
    if (message.role !== "tool") return [];
    const content = message.content.filter((part) =>
      part.type === "tool-result"
        ? isAnswered(part.toolCallId, part.toolName)
        : isDecided(approvals.get(part.approvalId), part.approved),
    );
    return content.length > 0 ? [{ id, message: { ...message, content } }] : [];
  });
}

const resultOf = ({ type, toolCallId }: { type: string; toolCallId?: string }): string | undefined =>
  type === "tool-result" ? toolCallId : undefined;

/**
 * Rejects approvals outside a stored conversation. An approval runs a tool with the input in the same messages, and
 * only stored input is known to come from the model.
 */
function refuseApprovals(messages: readonly PromptMessage[]): void {
  const types = messages.flatMap(({ message }) => partsOf(message)).map(({ type }) => type);
  if (types.includes("tool-approval-response")) {
    throw invalid("input", "a tool can be approved only in a stored conversation");
  }
}

function toWindow(messages: readonly PromptMessage[]): readonly PromptMessage[] {
  const last = messages.slice(-windowSize);
  const user = last.findIndex(({ message }) => message.role === "user");
  if (user >= 0) return last.slice(user);
  // The turn is longer than the window. It is kept whole, because the end has no meaning without the beginning.
  const turn = messages.slice(
    Math.max(
      messages.findLastIndex(({ message }) => message.role === "user"),
      0,
    ),
  );
  if (turn.length > maxMessages) throw invalid("input", `more than ${maxMessages} messages without a user message`);
  return turn;
}

const fromStored = ({ id, body }: StoredMessage): PromptMessage => ({
  id,
  message: withUrls(JSON.parse(body) as ModelMessage),
});
const toStored = ({ id, message }: PromptMessage): StoredMessage => ({
  id,
  role: message.role,
  body: JSON.stringify(message, toText),
});

/**
 * Encodes bytes as base64, which JSON can hold and the SDK accepts. Reads `this[key]`, because `value` is already the
 * result of `Buffer.toJSON()`.
 */
function toText(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value;
}
