// oxlint-disable vitest/no-standalone-expect -- called inside of tests
import { expect } from "vitest";
import type { AgentLives } from "./lives.ts";
import { needsTool, toTurns, type Turn } from "./turns.ts";
import type { Line } from "./log.ts";
import { keysOf } from "./workload.ts";

/** The calls that a step makes, in order: what the log says of each, and the name of its record. */
export const callsOf = (path: string): (readonly [what: Line["what"], name: string])[] =>
  needsTool(path)
    ? [
        ["ask", "model#0"],
        ["tool", "tool"],
        ["go on", "model#1"],
      ]
    : [["ask", "model#0"]];

/** An execution whose steps ask the agent, and what is known of it. */
export class Execution {
  readonly id: string;
  readonly options: { executionId: string; userId: string; conversationId: string };
  result: any;
  readonly #lives: AgentLives;
  /** Since the end of which life a step, or a call of a step, is recorded. */
  readonly #recorded = new Map<string, number>();

  constructor(id: string, lives: AgentLives) {
    this.id = id;
    this.options = { executionId: id, userId: "ada", conversationId: `of ${id}` };
    this.#lives = lives;
  }

  /** False when nobody knows whether it began. */
  async begin(): Promise<boolean> {
    const headers = { prefer: "respond-async" };
    const reply = await this.#lives.ask("/workflows/talk/execute", { input: {}, options: this.options }, { headers });
    // Asked again after a crash, it may have begun already.
    if (reply && ![202, 409].includes(reply.status)) throw new Error(`${this.id} was answered with ${reply.status}`);
    return reply !== undefined;
  }

  /** Follows it to its end, over every kill. */
  async follow(): Promise<void> {
    while (this.result === undefined) {
      const reply = await this.#lives.ask(`/workflows/talk/executions/${this.id}/stream`);
      const last = reply?.events.at(-1);
      if (reply && reply.status !== 200) throw new Error(`${this.id}: ${reply.status}`);
      if (last?.type !== "workflow-result") continue;
      if (last.suspension?.kind === "system") {
        // Three crashes in a row have interrupted it. Its operator resumes it.
        await this.#lives.ask(`/workflows/talk/executions/${this.id}/resume`, {});
        continue;
      }
      expect(last, this.id).toMatchObject({ status: "completed" });
      this.result = last.result;
    }
  }

  /** What the file holds of its conversation: whole turns. The process must have ended. */
  stored(): string[] {
    return toTurns(this.#lives.stored("talker", "ada", this.options.conversationId)).map(({ key }) => key);
  }

  /** Call it when the process is dead, and before the next one lives. */
  look(): void {
    this.stored();
    for (const one of [...this.#lives.recorded(this.id), ...this.#lives.recordedCalls(this.id)])
      if (!this.#recorded.has(one)) this.#recorded.set(one, this.#lives.life);
  }

  /** Whether the file had a call of a step, the last time that it was looked at. */
  has(path: string, name: string): boolean {
    return this.#recorded.has(`${path} ${name}`);
  }

  /** In which lives the model was asked by a step. */
  asks(path: string): number[] {
    return this.#livesOf("ask", path);
  }
  #livesOf(what: Line["what"], path: string): number[] {
    const key = `${this.id}/${path}`;
    return this.#lives.log().flatMap((line) => (line.what === what && line.key === key ? [line.life] : []));
  }
  #asks(asked: string) {
    return this.#lives.log().flatMap((line) => (line.what === "ask" && line.key === asked ? [line] : []));
  }

  /**
   * It has completed: every model call and every tool call of a step was made once in a life at the most, and never again
   * once it or its step was recorded. The model was shown the turns of the steps before, not that of its own step.
   */
  checkCalls(): void {
    const keys = keysOf(this.id);
    const siblings = keys.slice(3, 5);
    for (const [place, key] of keys.entries()) {
      for (const { lines } of this.#asks(key)) {
        const shown = toTurns(lines.slice(0, -1)).map((turn) => turn.key);
        const own = shown.filter((one) => one.startsWith(`${this.id}/`));
        const among = siblings.includes(key) ? own.filter((one) => !siblings.includes(one) || one === key) : own;
        const before = siblings.includes(key) ? keys.slice(0, 3) : keys.slice(0, place);
        expect(among.toSorted(), `${key} was shown`).toEqual(before.toSorted());
      }
      const path = key.slice(this.id.length + 1);
      for (const [what, name] of callsOf(path)) {
        const made = this.#livesOf(what, path);
        expect(made.length, `${key}: ${what}`).toBeGreaterThan(0);
        expect(made, `${key}: ${what} twice in a life`).toEqual([...new Set(made)]);
        const last = Math.min(...[path, `${path} ${name}`].map((one) => this.#recorded.get(one) ?? Infinity));
        expect(
          made.filter((life) => life > last),
          `${key}: ${what} was recorded`,
        ).toEqual([]);
      }
    }
  }

  /** Its turns, once each, whole, in order, and with the answers that its steps gave. */
  checkTurns(lines: readonly string[], what: string): void {
    const own = toTurns(lines).filter(({ key }) => key.startsWith(`${this.id}/`));
    const keys = keysOf(this.id);
    const found = own.map(({ key }) => key);
    const [left, right] = [3, 4].map((place) => keys[place]!);
    if (found[3] === right) keys.splice(3, 2, right!, left!);
    expect(found, what).toEqual(keys);
    const at = (path: string): Turn => own.find(({ key }) => key === `${this.id}/${path}`)!;
    const answers = ["text", "left", "right", "sub/deep"].map((path) => [path, at(path).answer]);
    const object = JSON.parse(at("object").answer!);
    const mapped = { text: at("mapped").answer };
    expect(this.result, what).toEqual({ ...Object.fromEntries(answers), object, mapped });
  }
}
