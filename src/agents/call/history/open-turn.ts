import type { CallContext } from "../../../core/caller.ts";
import { ServeError } from "../../../core/error.ts";
import { newId } from "../../../core/id.ts";
import type { Turn } from "../../../engine/contract/conversations.ts";
import { nameConversation } from "../../conversations/name-conversation.ts";
import { AnswerParts } from "../../messages/answer-parts.ts";
import { readMessages } from "../../messages/read-messages.ts";
import type { AgentCallOptions, Operation } from "../operation.ts";
import type { CallParts, Question } from "../question.ts";
import { toMessages } from "./messages.ts";
import type { ContinuedTurn, FreeTurn, StoredTurn, TurnInput, TurnStore, UndecidedTurn } from "./turn-parts.ts";
import { continuedTurn, freeTurn, storedTurn } from "./turn.ts";

/** A turn that has its place in the conversation. */
export type HeldTurn = HeldPlace & (FreeTurn | ContinuedTurn | HeldStoredTurn);
interface HeldPlace {
  /** Generated on the first call. */
  readonly answerId: () => string;
  close(isUnfinished?: boolean): Promise<void> | void;
}
export interface HeldStoredTurn extends StoredTurn, HeldPlace {
  /** The parts of the answer so far. */
  readonly recorded: AnswerParts;
  /** Hears what other processes ask of the turn. */
  readonly listen: Turn["listen"];
}
export interface HeldDecisions extends UndecidedTurn, HeldPlace {}

/** Opens the turn of a call, after all earlier turns of the conversation. */
export async function openTurn(parts: CallParts, question: Question): Promise<HeldTurn> {
  const { operation } = parts;
  const { memory } = operation.agent;
  const isStored = memory && operation.callContext.conversationId !== undefined;
  if (isStored && !question.continued) {
    const held = await openStored(parts, question);
    if (held.type === "stored") return held;
    void held.close();
    throw new ServeError(409, "The answer waits for more decisions", { retry: false });
  }
  const input = await toInput(parts, question);
  const turn = question.continued ? continuedTurn(input.messages, question.continued) : freeTurn(input);
  if (turn.type === "continued") operation.bind({ calls: turn.calls });
  return { ...turn, answerId: toAnswerId(turn.type === "free" ? turn.continues : undefined), close: () => {} };
}

/** Opens a call of a stored conversation: the turn, or decisions after which the answer still waits. */
export async function openStored(parts: CallParts, question: Question): Promise<HeldStoredTurn | HeldDecisions> {
  const { operation, conversations, conversationBytes: maxBytes } = parts;
  const input = await toInput(parts, question);
  const { signal, callContext } = operation;
  const { userId, conversationId = "" } = callContext;
  const key = { agentId: operation.agent.id, userId, conversationId };
  const turn = await conversations.open(key, { name: question.turnName, isNew: question.isNew, signal });
  // A tool that ignores the abort must not keep the conversation locked. A durable turn is closed by its runner.
  const isHeld = question.isNew !== undefined;
  if (!isHeld) signal.addEventListener("abort", () => void turn.close(), { once: true });
  turn.signal?.addEventListener("abort", () => operation.abort(turn.signal?.reason), { once: true });
  const close = (isUnfinished?: boolean): Promise<void> | void => turn.close(isUnfinished);
  try {
    const store: TurnStore = {
      turn,
      admit: (bytes) => operation.history.admit(bytes, signal),
      readLast: async () => (await readMessages(conversations, key, { limit: 1 })).at(-1),
      at: question.at ?? operation.clock.now(),
      signal,
      maxBytes,
      onOmitted: (omitted) =>
        operation.context.logger.warn(
          "Older messages were left out: the conversation is over limits.conversationBytes",
          { omitted },
        ),
      onNew: (message, title) => void nameConversation(operation, conversations, { key, message, title }),
      toOrigin: () => toOriginText(operation),
    };
    const opened = await storedTurn(store, input);
    if (opened.type === "undecided") return { ...opened, close, answerId: () => opened.waiting.messageId };
    const answerId = toAnswerId(opened.continues ?? question.answerId);
    operation.bind({ calls: opened.calls, answer: { key, id: answerId } });
    return { ...opened, recorded: new AnswerParts(), answerId, close, listen: turn.listen };
  } catch (error) {
    void turn.close();
    throw error;
  }
}

async function toInput({ agent, operation }: CallParts, question: Question): Promise<TurnInput> {
  const given = operation.records?.found?.input ?? question.input;
  // The server itself continues a message, with decisions and without messages of a client.
  const { decisions, outcomes, ended, results } = question;
  const isBare = given.length === 0 && (decisions ?? outcomes ?? ended ?? results) !== undefined;
  return { ...question, messages: isBare ? [] : await toMessages(agent.sdk, given, question) };
}

function toAnswerId(known: string | undefined): () => string {
  let id = known;
  return () => (id ??= newId());
}

/** The facts of a call for the turn that continues its answer on behalf of another user. */
export interface CallOrigin {
  readonly user?: CallContext["user"];
  readonly context: CallContext["context"];
  readonly options: AgentCallOptions;
}
function toOriginText({ callContext: { user, context }, options }: Operation): string {
  return JSON.stringify({ user, context, options } satisfies CallOrigin);
}
