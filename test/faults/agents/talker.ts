import type { AgentLives, Reply } from "./lives.ts";
import type { Line } from "./log.ts";
import { toTurns, type Turn } from "./turns.ts";

export const ways = ["text", "stream", "chat"] as const;
export type Way = (typeof ways)[number];

/** Somebody who talks with the agent in one conversation, one turn after the other, over every kill. */
export class Talker {
  readonly conversationId: string;
  readonly userId = "ada";
  readonly #lives: AgentLives;
  readonly #sent: string[] = [];
  /** What was answered whole. */
  readonly #answered = new Map<string, string>();
  /** Turns that have begun, and the number of times that the process has died before their end. */
  readonly #interrupted = new Map<string, number>();

  constructor(conversationId: string, lives: AgentLives) {
    this.conversationId = conversationId;
    this.#lives = lives;
  }

  get next(): string {
    return `${this.conversationId}.${this.#sent.length + 1}`;
  }

  /** Whether it was answered. Whoever asks again in a chat asks with the same message. */
  async ask(way: Way, key: string): Promise<boolean> {
    if (this.#sent.at(-1) !== key) this.#sent.push(key);
    const { userId, conversationId } = this;
    const options = { userId, conversationId };
    const message = { id: key, role: "user", parts: [{ type: "text", text: key }] };
    const reply = await this.#lives.ask(`/agents/talker/${way}`, { input: way === "chat" ? [message] : key, options });
    const answer = reply && toAnswer(way, reply);
    if (answer !== undefined) this.#answered.set(key, answer);
    return answer !== undefined;
  }

  /** The turns that are stored. The process must have ended. */
  stored(): Turn[] {
    return toTurns(this.#lives.stored("talker", this.userId, this.conversationId));
  }

  /** Notes the turns that have begun and not ended. The process must have ended. */
  look(): void {
    for (const { key, answer } of this.stored())
      if (answer === undefined) this.#interrupted.set(key, (this.#interrupted.get(key) ?? 0) + 1);
  }

  /**
   * Whole turns, each once, in order; all that were answered, with that answer, and all that have begun. Only a turn that
   * three crashes have interrupted may have no answer. The process must have ended.
   */
  check(): void {
    const log = this.#lives.log();
    const stored = this.#lives.stored("talker", this.userId, this.conversationId);
    this.#checkTurns(toTurns(stored), Infinity, true, log);
    for (const line of log) {
      if (line.what !== "ask" || !this.#sent.includes(line.key)) continue;
      const before = line.lines.slice(0, -1);
      // The window of 40, cut at a message of the user's: the longest turn has four.
      this.#checkTurns(toTurns(before), this.#sent.indexOf(line.key), before.length < 36, log);
    }
  }

  #checkTurns(turns: readonly Turn[], until: number, isAll: boolean, log: readonly Line[]): void {
    const own = turns.filter(({ key }) => this.#sent.includes(key));
    const places = own.map(({ key }) => this.#sent.indexOf(key));
    const fail = (why: string): never => {
      throw new Error(`${this.conversationId}, turn ${until}: ${why}:\n${JSON.stringify(turns, null, 1)}`);
    };
    if (new Set(turns.map(({ key }) => key)).size < turns.length) fail("a turn is there twice");
    if (places.some((place, index) => place <= (places[index - 1] ?? -1))) fail("not in order");
    if (places.some((place) => place >= until)) fail("a turn is shown to itself");
    const first = isAll ? 0 : places[0]!;
    for (const [place, key] of this.#sent.entries()) {
      const turn = own.find((one) => one.key === key);
      const answer = this.#answered.get(key);
      if (!turn && answer !== undefined && place >= first && place < until) fail(`${key} was answered, and is gone`);
      const interruptions = this.#interrupted.get(key) ?? 0;
      if (!turn && interruptions > 0 && place >= first && place < until) fail(`${key} had begun, and is gone`);
      if (turn?.answer === undefined) {
        if (turn && interruptions < 3) fail(`${key} has no answer`);
        continue;
      }
      if (until === Infinity && answer !== undefined && answer !== turn.answer)
        fail(`${key} was answered otherwise: ${answer}`);
      if (!log.some((line) => line.what === "answer" && line.key === key && line.text === turn.answer))
        fail(`the model never gave the answer of ${key}`);
    }
  }
}

/** The answer that was seen whole: a body, `finish` or `[DONE]`. */
function toAnswer(way: Way, { status, body, events, ended }: Reply): string | undefined {
  if (status !== 200) throw new Error(`${way} was answered with ${status}: ${JSON.stringify(body)}`);
  if (way === "text") return body?.data.text;
  const isWhole = way === "stream" ? events.at(-1)?.type === "finish" : events.at(-1) === "[DONE]";
  const error = events.find((event) => event.type === "error" || event.type === "abort");
  if (error || (ended && !isWhole)) throw new Error(`${way} did not finish: ${JSON.stringify(events)}`);
  return isWhole ? events.map((event) => (event.type === "text-delta" ? event.delta : "")).join("") : undefined;
}
