import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { isCopied } from "./oracle.ts";
import type { Serving } from "./process.ts";
import { letterName, letters } from "./workload.ts";
import type { Witness } from "./witness.ts";

/** The id of the event with a letter to an execution. */
export const toLetterId = (executionId: string, index: number): string => `letter-${executionId}-${index + 1}`;

/** When the letters are sent: before the wait for them begins, at that moment, or when the execution is seen waiting. */
export type Posting = "before" | "at once" | "after";

/** The sender of the letters to one execution. */
export class Poster {
  readonly #lives: Serving;
  #sending: Promise<void> | undefined;

  constructor(lives: Serving) {
    this.#lives = lives;
  }

  /**
   * Sends the first letters, each until it is answered. A letter that was sent before is sent again, with the same id: that
   * has no effect. One call at a time is at work.
   */
  async send(witness: Witness, count: number): Promise<void> {
    await this.#sending;
    await (this.#sending = this.#send(witness, count));
  }

  async #send(witness: Witness, count: number): Promise<void> {
    for (const [index, data] of letters.slice(0, count).entries()) {
      if (index === 0 && isCopied(witness.asked, "letter")) continue; // its original has had it
      const id = toLetterId(witness.id, index);
      const json = { name: letterName, key: witness.id, data, id };
      let reply = await this.#lives.ask("/events", { method: "POST", json });
      while (!reply) reply = await this.#lives.ask("/events", { method: "POST", json });
      const { status, body } = reply;
      if (status !== 202 || !isDeepStrictEqual(body, { success: true, data: { id } }))
        witness.fail(`was sent ${id}, and the answer was ${status}: ${JSON.stringify(body)}`);
    }
  }

  /** Sends the letters before anybody has seen that the execution waits, unless it is over. */
  async sendEarly(witness: Witness, posting: Posting, isOver: () => boolean): Promise<void> {
    if (witness.asked.workflow !== "post" || posting === "after") return;
    const isTime = (path: string): boolean => posting === "before" || path === "letter?";
    while (!this.#lives.log.of(witness.id).some(({ path }) => isTime(path))) {
      if (isOver()) return;
      await this.#lives.within("a moment", sleep(5));
    }
    await this.send(witness, 2);
  }
}
