import { setTimeout as sleep } from "node:timers/promises";
import type { Execution } from "../../../engine/execution.ts";
import type { RestateClient } from "../client/client.ts";
import { toGroupKey } from "./service.ts";

const retryMs = 500;
/** The answers in a row by which an execution is known not to be in its group. */
const maxMissed = 4;

/** The drives of this replica that wait for a place in a group. */
export class LocalPlaces {
  readonly #client: RestateClient;
  /** Aborted when the server shuts down. */
  readonly #closing: AbortSignal;

  constructor(client: RestateClient, closing: AbortSignal) {
    this.#client = client;
    this.#closing = closing;
  }

  /**
   * Calls back when an execution has a place. Returns the function that ends the wait. An execution outside its group has
   * just left it, and its drive is told soon; or its workflow has no limit any more.
   */
  wait(execution: Execution, onPlace: () => void): () => void {
    const left = new AbortController();
    void this.#wait(execution, onPlace, left.signal);
    return () => left.abort();
  }

  async #wait(execution: Execution, onPlace: () => void, left: AbortSignal): Promise<void> {
    const closing = this.#closing;
    const input = { key: toGroupKey(execution), id: execution.id };
    for (let missed = 0; missed < maxMissed && !closing.aborted;) {
      const news = await this.#client.waitOnce("place", input, AbortSignal.any([left, closing]));
      if (left.aborted) return;
      if (news === "inside") return onPlace();
      if (news === "missing") missed++;
      if (news) await sleep(retryMs, undefined, { ref: false });
      if (left.aborted) return;
    }
    if (!closing.aborted) onPlace();
  }
}
