import { toTurns } from "../agents/turns.ts";
import type { FaultyAgent } from "./model.ts";
import type { FaultyServing } from "./serving.ts";

const ways = ["text", "stream", "chat"] as const;
/** The failures of a model or of the store that a caller may be told of. */
const failures = [502, 503, 504];

/** A client that talks with the agent in one conversation, one turn after the other. */
export class Talker {
  readonly #id: string;
  readonly #serving: FaultyServing;
  readonly #agent: FaultyAgent;
  /** The keys of the turns, in order. */
  readonly #sent: string[] = [];
  /** The answers that came whole. */
  readonly #answered = new Map<string, string>();

  constructor(id: string, serving: FaultyServing, agent: FaultyAgent) {
    this.#id = id;
    this.#serving = serving;
    this.#agent = agent;
  }

  get answers(): number {
    return this.#answered.size;
  }

  /** Asks once; resolves to whether the answer came whole. */
  async ask(): Promise<boolean> {
    const place = this.#sent.length;
    const key = `${this.#id}.${place}`;
    this.#sent.push(key);
    const way = ways[place % ways.length]!;
    const path = `/agents/talker/${way}`;
    const options = { userId: "ada", conversationId: this.#id };
    const message = { id: key, role: "user", parts: [{ type: "text", text: key }] };
    const json = { input: way === "chat" ? [message] : key, options };
    const answer = way === "text" ? await this.#askText(path, json) : await this.#askStream(path, json, way);
    if (answer === undefined) return false;
    if (answer !== this.#agent.said.get(key))
      throw new Error(`${key} was answered ${answer}, and the model said ${this.#agent.said.get(key)}`);
    this.#answered.set(key, answer);
    return true;
  }

  async #askText(path: string, json: unknown): Promise<string | undefined> {
    const reply = await this.#serving.ask(path, { method: "POST", json });
    if (!reply || failures.includes(reply.status)) return undefined;
    if (reply.status !== 200) throw new Error(`${path} answered ${reply.status}: ${JSON.stringify(reply.body)}`);
    return reply.body.data.text;
  }

  async #askStream(path: string, json: unknown, way: "stream" | "chat"): Promise<string | undefined> {
    const stream = await this.#serving.open(path, { method: "POST", json });
    if (!stream || failures.includes(stream.status)) return undefined;
    if (stream.status !== 200) throw new Error(`${path} answered ${stream.status}`);
    let text = "";
    let end: string | undefined;
    for await (const frame of stream.frames) {
      if (frame === ":") continue;
      const data = frame.replace(/^data: /, "");
      const event = data === "[DONE]" ? { type: "done" } : JSON.parse(data);
      if (event.type === "text-delta") text += event.delta;
      if (event.type === "error" || event.type === "abort") end = "error";
      if (event.type === (way === "stream" ? "finish" : "done")) end ??= "whole";
    }
    return end === "whole" ? text : undefined;
  }

  /** Asks until it is answered, and checks the history that the model was shown. Call it without faults. */
  async check(): Promise<void> {
    await this.#serving.within(`${this.#id} to be answered`, this.#askUntilAnswered());
    const key = this.#sent.at(-1)!;
    const turns = toTurns(this.#agent.shown.get(key)!);
    const fail = (why: string): never => {
      throw new Error(`conversation ${this.#id}: ${why}:\n${JSON.stringify(turns, null, 1)}`);
    };
    const places = turns.map((turn) => this.#sent.indexOf(turn.key));
    if (places.some((place, index) => place <= (places[index - 1] ?? -1))) fail("turns are not in order, each once");
    for (const { key: own, answer } of turns)
      if (answer !== this.#agent.said.get(own)) fail(`the model never gave the answer of ${own}`);
    for (const [own, answer] of this.#answered)
      if (own !== key && !turns.some((turn) => turn.key === own && turn.answer === answer))
        fail(`${own} was answered, and is gone`);
  }

  async #askUntilAnswered(): Promise<void> {
    while (!(await this.ask()));
  }
}
