import { setTimeout as sleep } from "node:timers/promises";
import { busy } from "../../../core/error.ts";
import { isExecutionId, isOwnId } from "../../../core/id.ts";
import type { ExecutionState } from "../../../engine/execution.ts";
import type { RestateClient } from "../client/client.ts";
import { toState, type Solo } from "../former/solo.ts";
import type { Brief } from "../register/register-state.ts";

/** The first and the longest pause while an execution gets its register, and the time limit. */
const firstPauseMs = 5;
const maxPauseMs = 250;
const maxMs = 5_000;

/** The states of executions. One that an earlier version began may have no register: it is *solo* (`former/solo`). */
export class States {
  readonly #client: RestateClient;

  constructor(client: RestateClient) {
    this.#client = client;
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    return (await this.#find<ExecutionState>(id, "state", (state) => state)) ?? undefined;
  }
  /** The part that is read often. */
  brief(id: string): Promise<Brief | null> {
    return this.#find<Brief>(id, "brief", ({ status, epoch }) => ({ status, epoch, isDriven: status === "running" }));
  }

  async #find<T>(id: string, method: "state" | "brief", toFound: (solo: ExecutionState) => T): Promise<T | null> {
    if (!isExecutionId(id)) return null; // `..` would change the path of the request
    const read = (): Promise<T | null> => this.#client.read<T | null>(`register/${method}`, id);
    const found = await read();
    if (found || !isOwnId(id)) return found;
    const solo = await this.#readSolo(id);
    return solo ? toFound(toState(solo)) : read(); // it may have got a register between the two questions
  }

  /** Reads an execution for a list. One whose index was found at its drive may have a register by now. */
  async readListed(id: string, service: string): Promise<ExecutionState | null> {
    const isSolo = service === this.#client.names.drive;
    const solo = isSolo ? await this.#client.read<ExecutionState | null>("drive/listedSolo", id) : null;
    return solo ?? this.#client.read<ExecutionState | null>("register/listed", id);
  }

  async isSolo(id: string): Promise<boolean> {
    return (await this.#readSolo(id)) !== null;
  }
  async #readSolo(id: string): Promise<Solo | null> {
    return isOwnId(id) ? this.#client.read<Solo | null>("drive/solo", id) : null;
  }

  /** Lets a solo execution get a register. Resolves when it is no longer solo. */
  async adopt(id: string): Promise<void> {
    const until = performance.now() + maxMs;
    let summoned: string | undefined;
    for (let pauseMs = firstPauseMs; performance.now() < until; pauseMs = Math.min(2 * pauseMs, maxPauseMs)) {
      const solo = await this.#readSolo(id);
      if (!solo) return;
      if (solo.last) await this.#client.write("drive/registerSolo", id, null);
      else if (solo.summons !== summoned) await this.#client.resolve(solo.summons);
      summoned = solo.summons;
      await sleep(pauseMs);
    }
    throw busy(`Execution ${id} does not answer`, 1);
  }
}
