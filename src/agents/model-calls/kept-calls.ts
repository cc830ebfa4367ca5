import type { LanguageModelV4CallOptions } from "@ai-sdk/provider";
import type { Clock } from "../../core/clock.ts";
import type { ConversationKey } from "../../engine/contract/conversations.ts";
import { KeptCall, type ModelCallView } from "./kept-call.ts";

/** Max bytes of all calls, and max turns. */
export const maxBytes: number = 32 * 1024 * 1024;
export const maxTurns = 1_000;

interface KeptTurn {
  readonly conversation: string;
  readonly calls: KeptCall[];
  /** The number of the next call. */
  next: number;
  bytes: number;
}

/**
 * The model calls of the last turns, for the console.
 *
 * K1. They are in memory only, and only of turns in this process.
 * K2. The turns that were idle for the longest time leave first. A turn that is alone loses its oldest calls.
 * K3. A conversation that is deleted has no calls here: those in flight are not kept when they end.
 */
export class KeptCalls {
  readonly #clock: Clock;
  /** The turns by conversation and answer. Ordered by their last call. */
  readonly #turns = new Map<string, KeptTurn>();
  #bytes = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Begins a call of the turn with this answer. */
  begin(
    key: ConversationKey,
    answerId: string,
    model: ModelCallView["model"],
    params: LanguageModelV4CallOptions,
  ): KeptCall {
    const id = toTurnId(key, answerId);
    const turn = this.#turns.get(id) ?? { conversation: toConversationId(key), calls: [], next: 0, bytes: 0 };
    this.#turns.delete(id);
    this.#turns.set(id, turn);
    const call = new KeptCall({
      index: turn.next++,
      model,
      params,
      clock: this.#clock,
      onEnd: (bytes) => {
        if (this.#turns.get(id) === turn && turn.calls.includes(call)) this.#add(turn, bytes);
      },
    });
    turn.calls.push(call);
    this.#add(turn, call.bytes);
    return call;
  }

  /** Returns the calls of a turn; undefined if it is not kept. */
  find(key: ConversationKey, answerId: string): readonly KeptCall[] | undefined {
    return this.#turns.get(toTurnId(key, answerId))?.calls;
  }

  /** Removes the calls of a conversation. */
  remove(key: ConversationKey): void {
    const conversation = toConversationId(key);
    for (const [id, turn] of this.#turns) if (turn.conversation === conversation) this.#drop(id, turn);
  }

  #add(turn: KeptTurn, bytes: number): void {
    turn.bytes += bytes;
    this.#bytes += bytes;
    for (const [id, oldest] of this.#turns) {
      if (this.#turns.size <= maxTurns && this.#bytes <= maxBytes) return;
      if (oldest !== turn) this.#drop(id, oldest);
    }
    while (this.#bytes > maxBytes && turn.calls.length > 1) {
      const lost = turn.calls.shift()!.bytes; // there are several
      turn.bytes -= lost;
      this.#bytes -= lost;
    }
  }

  #drop(id: string, turn: KeptTurn): void {
    this.#turns.delete(id);
    this.#bytes -= turn.bytes;
  }
}

const toConversationId = ({ agentId, userId, conversationId }: ConversationKey): string =>
  JSON.stringify([agentId, userId ?? null, conversationId]);
const toTurnId = (key: ConversationKey, answerId: string): string => `${toConversationId(key)} ${answerId}`;
