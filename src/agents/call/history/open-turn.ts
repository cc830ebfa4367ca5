import type { CallContext } from "../../../core/caller.ts";
import { newId } from "../../../core/id.ts";
import type { Turn } from "../../../engine/contract/conversations.ts";
import { nameConversation } from "../../conversations/name-conversation.ts";
import { AnswerParts } from "../../messages/answer-parts.ts";
import { readMessages } from "../../messages/read-messages.ts";
import type { StoredUiMessage } from "../../messages/ui-message.ts";
import type { AgentCallOptions, Operation } from "../operation.ts";
import type { CallParts, Question } from "../question.ts";
import { toMessages } from "./messages.ts";
import { continuedTurn, freeTurn, storedTurn, type OpenTurn } from "./turn.ts";

/** A turn that has its place in the conversation. */
export interface HeldTurn extends OpenTurn {
  /** The parts of the answer so far, if it will be stored. */
  readonly recorded: AnswerParts | undefined;
  /** Generated on the first call. */
  readonly answerId: () => string;
  close(isUnfinished?: boolean): Promise<void> | void;
  /** Hears what other processes ask of the turn. */
  readonly listen?: Turn["listen"];
}

/** Opens the turn of a call, when those before it have ended. */
export async function openTurn(
  { agent, operation, conversations, conversationBytes: maxBytes }: CallParts,
  question: Question,
): Promise<HeldTurn> {
  const given = operation.records?.found?.input ?? question.input;
  // The server itself continues a message, with decisions and without messages of a client.
  const { decisions, outcomes, ended, results } = question;
  const isBare = given.length === 0 && (decisions ?? outcomes ?? ended ?? results) !== undefined;
  const messages = isBare ? [] : await toMessages(agent.sdk, given, question);
  const input = { ...question, messages };
  const { signal, callContext } = operation;
  const { userId, conversationId } = callContext;
  const { id: agentId, memory } = operation.agent;
  if (question.continued) return toHeld(continuedTurn(messages, question.continued), () => {});
  if (!memory || conversationId === undefined) {
    return toHeld(freeTurn(input), () => {});
  }
  const key = { agentId, userId, conversationId };
  const turn = await conversations.open(key, { name: question.turnName, isNew: question.isNew, signal });
  // A tool that ignores the abort must not keep the conversation locked. A durable turn is closed by its runner.
  const isHeld = question.isNew !== undefined;
  if (!isHeld) signal.addEventListener("abort", () => void turn.close(), { once: true });
  turn.signal?.addEventListener("abort", () => operation.abort(turn.signal?.reason), { once: true });
  try {
    const readLast = async () => (await readMessages(conversations, key, { limit: 1 })).at(-1);
    const onOmitted = (omitted: number): void =>
      operation.context.logger.warn("Older messages were left out: the conversation is over limits.conversationBytes", {
        omitted,
      });
    const admit = (bytes: number): Promise<void> => operation.history.admit(bytes, signal);
    const onNew = (message: StoredUiMessage, title: string): void =>
      void nameConversation(operation, conversations, { key, message, title });
    const at = question.at ?? operation.clock.now();
    const toOrigin = (): string => toOriginText(operation);
    const store = { turn, admit, readLast, at, signal, maxBytes, onOmitted, onNew, toOrigin };
    const held = toHeld(await storedTurn(store, input), (isUnfinished) => turn.close(isUnfinished), question.answerId);
    operation.answer = { key, id: held.answerId };
    return { ...held, listen: turn.listen };
  } catch (error) {
    void turn.close();
    throw error;
  }
}

/** The facts of a call that a turn needs which continues its answer for another user. */
export interface CallOrigin {
  readonly user?: CallContext["user"];
  readonly context: CallContext["context"];
  readonly options: AgentCallOptions;
}
function toOriginText({ callContext: { user, context }, options }: Operation): string {
  return JSON.stringify({ user, context, options } satisfies CallOrigin);
}

function toHeld(turn: OpenTurn, close: HeldTurn["close"], answerId?: string): HeldTurn {
  let id = turn.continues ?? answerId;
  const recorded = turn.store && new AnswerParts();
  return { ...turn, recorded, answerId: () => (id ??= newId()), close };
}
