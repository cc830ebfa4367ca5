import type { ModelMessage } from "ai";
import { maxMessages, windowSize, type History, type StoredMessage, type Turn } from "../../engine/conversations.ts";
import { invalid, openCalls, partsOf, toPrompt, type ClientMessage, type PromptMessage } from "./messages.ts";

/** What a client asks for within a conversation. */
export interface TurnInput {
  /** What it sent: its whole history, or only what is new. */
  readonly messages: readonly ClientMessage[];
  /** The message to answer again, and all after it to forget. */
  readonly regenerate?: string | undefined;
  /** Whether all of it is new and to be trusted: it comes from code, not from a client. */
  readonly trusted?: boolean | undefined;
}

/** A turn, ready to be put to the model. */
export interface OpenTurn {
  readonly prompt: ModelMessage[];
  /** The id of the message that the answer continues, when it goes on with tools of the client's own. */
  readonly continues?: string | undefined;
  /** Keeps the whole turn. The answer gets this id. */
  store(answer: readonly ModelMessage[], id: () => string): Promise<void>;
}

/** Without a conversation the client's messages are all there is. */
export function freeTurn({ messages, trusted }: TurnInput): OpenTurn {
  const sent = messages.flat();
  if (!trusted) refuseApprovals(sent);
  const prompt = toPrompt(sent.map(({ message }) => message));
  return { prompt, continues: continuedBy(messages.at(-1)!), store: async () => {} };
}

/**
 * In a stored conversation only the client's last message is new: the rest of what it sends is forgeable, and known
 * already.
 */
export async function storedTurn(turn: Turn, input: TurnInput): Promise<OpenTurn> {
  const last = input.messages.at(-1)!;
  const { history, until } = await findPlace(turn, input, last);
  const before = history.messages.map(fromStored);
  const fresh = toFresh(history, before, last, input);
  const prompt = toPrompt(toWindow([...before, ...fresh]).map(({ message }) => message));
  if (prompt.length === 0) throw invalid("input", "expected a message of the user");
  return {
    prompt,
    continues: continuedBy(last),
    store: (answer, id) =>
      turn.store([...fresh, ...answer.map((message) => ({ id: id(), message }))].map(toStored), until),
  };
}

/** Where the turn begins: after all that is stored, unless the client answers or edits a message that is. */
async function findPlace(
  turn: Turn,
  { regenerate, trusted }: TurnInput,
  last: ClientMessage,
): Promise<{ history: History; until: string | undefined }> {
  const [first] = last;
  const edited = !trusted && first?.message.role === "user" ? first.id : undefined;
  for (const until of [regenerate, edited]) {
    const history = until === undefined ? undefined : await turn.history(until);
    if (history?.found) return { history, until };
  }
  return { history: await turn.history(), until: undefined };
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
    // To answer again, the question is there already.
    const isStored = input.regenerate !== undefined && stored?.message.role === "user";
    return isStored && (first.id ?? stored.id) === stored.id ? [] : last;
  }
  const answers = toAnswers(before, last);
  if (answers.length === 0) {
    throw invalid("input", "the last message must be the user's, or carry results of tools that were called");
  }
  return answers;
}

/** The answer to results of tools belongs to the message that called them. */
const continuedBy = ([first]: ClientMessage): string | undefined =>
  first?.message.role === "assistant" ? first.id : undefined;

/** Of what the client says about tools, only what answers a call that we know. */
function toAnswers(before: readonly PromptMessage[], last: ClientMessage): PromptMessage[] {
  // The user's next message has closed what was open before it.
  const since = before.findLastIndex(({ message }) => message.role === "user");
  const { calls, approvals } = openCalls(before.slice(since + 1).map(({ message }) => message));
  const results = new Set(last.flatMap(({ message }) => partsOf(message)).map(resultOf));
  // Of a call that waits for an approval, the result is ours to find. One that the client has seen came of a turn that
  // failed: running the tool once more is not ours to decide.
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

/** An approval runs a tool with the input that stands beside it: that must be one of ours. */
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
  // One long turn: without its beginning the rest has no meaning.
  const turn = messages.slice(
    Math.max(
      messages.findLastIndex(({ message }) => message.role === "user"),
      0,
    ),
  );
  if (turn.length > maxMessages) throw invalid("input", `more than ${maxMessages} messages without one of the user's`);
  return turn;
}

const fromStored = ({ id, body }: StoredMessage): PromptMessage => ({ id, message: JSON.parse(body) as ModelMessage });
const toStored = ({ id, message }: PromptMessage): StoredMessage => ({
  id,
  role: message.role,
  body: JSON.stringify(message, toText),
});

/** Bytes, which JSON does not know, as base64, which the SDK takes for the same. A Buffer has turned itself into an object. */
function toText(this: Record<string, unknown>, key: string, value: unknown): unknown {
  const own = this[key];
  return own instanceof Uint8Array ? Buffer.from(own).toString("base64") : value;
}
