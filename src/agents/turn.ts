import type { ModelMessage } from "ai";
import { windowSize, type History, type StoredMessage, type Turn } from "../engine/conversations.ts";
import { invalid, openCalls, partsOf, withoutOpenCalls, type ClientMessage, type Message } from "./messages.ts";

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
  store(answer: readonly ModelMessage[], id?: string): Promise<void>;
}

/** Without a conversation the client's messages are all there is. */
export function freeTurn({ messages, trusted }: TurnInput): OpenTurn {
  const sent = messages.flat();
  if (!trusted) refuseApprovals(sent);
  return { prompt: withoutOpenCalls(sent.map(({ message }) => message)), store: async () => {} };
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
  const prompt = withoutOpenCalls(toWindow([...before, ...fresh]).map(({ message }) => message));
  if (prompt.length === 0) throw invalid("input", "expected a message of the user");
  const isContinued = last[0]?.message.role === "assistant" && fresh[0]?.message.role === "tool";
  return {
    prompt,
    continues: isContinued ? last[0]?.id : undefined,
    store: (answer, id) => turn.store([...fresh, ...answer.map((message) => ({ id, message }))].map(toStored), until),
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

function toFresh(history: History, before: Message[], last: ClientMessage, input: TurnInput): readonly Message[] {
  const sent = input.messages.flat();
  if (input.trusted) return sent;
  if (!history.stored) {
    refuseApprovals(sent);
    return toWindow(sent);
  }
  const [first] = last;
  if (first?.message.role === "user") return isSame(before.at(-1), first) ? [] : last;
  const answers = toAnswers(before, last);
  if (answers.length === 0) {
    throw invalid("input", "the last message must be the user's, or carry results of tools that were called");
  }
  return answers;
}

const isSame = (stored: Message | undefined, sent: Message): boolean => sent.id !== undefined && stored?.id === sent.id;

/** Of what the client says about tools, only what answers a call that we know. */
function toAnswers(before: readonly Message[], last: ClientMessage): Message[] {
  const { calls, approvals } = openCalls(before.map(({ message }) => message));
  return last.flatMap(({ id, message }) => {
    if (message.role !== "tool") return [];
    const content = message.content.filter((part) =>
      part.type === "tool-result" ? calls.has(part.toolCallId) : approvals.has(part.approvalId),
    );
    return content.length > 0 ? [{ id, message: { ...message, content } }] : [];
  });
}

/** An approval runs a tool with the input that stands beside it: that must be one of ours. */
function refuseApprovals(messages: readonly Message[]): void {
  const types = messages.flatMap(({ message }) => partsOf(message)).map(({ type }) => type);
  if (types.includes("tool-approval-response")) {
    throw invalid("input", "a tool can be approved only in a stored conversation");
  }
}

function toWindow(messages: readonly Message[]): readonly Message[] {
  const last = messages.slice(-windowSize);
  const user = last.findIndex(({ message }) => message.role === "user");
  if (user >= 0) return last.slice(user);
  const before = messages.findLastIndex(({ message }) => message.role === "user");
  return messages.slice(Math.max(before, 0));
}

const fromStored = ({ id, body }: StoredMessage): Message => ({ id, message: JSON.parse(body) as ModelMessage });
const toStored = ({ id, message }: Message): StoredMessage => ({
  id,
  role: message.role,
  body: JSON.stringify(message),
});
