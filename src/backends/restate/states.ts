import { setTimeout as sleep } from "node:timers/promises";
import { busy } from "../../core/error.ts";
import { isExecutionId, isOwnId } from "../../core/id.ts";
import type { ExecutionState } from "../../engine/execution.ts";
import type { ServiceNames } from "./calls.ts";
import type { RestateClient } from "./client/client.ts";
import { toSoloState, type Solo } from "./former/solo.ts";
import type { Brief } from "./register/register-state.ts";

/** The first and the longest pause while a drive asks for its register, and the time that it has. */
const firstPauseMs = 5;
const mostPauseMs = 250;
const mostMs = 5_000;

/** The states of executions, with a register or without one. */
export class States {
  readonly #client: RestateClient;
  readonly #names: ServiceNames;

  constructor(client: RestateClient, names: ServiceNames) {
    this.#client = client;
    this.#names = names;
  }

  async state(id: string): Promise<ExecutionState | undefined> {
    const found = await this.#find(id, () => this.#readRegister<ExecutionState>(id, "state"), toSoloState);
    return found ?? undefined;
  }

  /** The part that is read often. */
  brief(id: string): Promise<Brief | null> {
    return this.#find(id, () => this.#brief(id), toSoloBrief);
  }
  #brief(id: string): Promise<Brief | null> {
    return this.#readRegister(id, "brief");
  }

  /** The execution may get its register between the two questions: then the drive has forgotten it. */
  async #find<T>(id: string, read: () => Promise<T | null>, toFound: (solo: Solo) => T): Promise<T | null> {
    if (!isExecutionId(id)) return null; // `..` would change the path of the request
    const found = await read();
    if (found || !isOwnId(id)) return found;
    const solo = await this.solo(id);
    return solo ? toFound(solo) : read();
  }
  async isRegistered(id: string): Promise<boolean> {
    return (await this.#brief(id)) !== null;
  }
  #readRegister<T>(id: string, method: string): Promise<T | null> {
    return this.#client.read<T | null>(this.#names.register, id, method);
  }

  /** The state of an execution without a register. */
  solo(id: string): Promise<Solo | null> {
    return this.#client.read<Solo | null>(this.#names.drive, id, "solo");
  }

  /** Lets an execution that runs without a register get one. Returns whether it has one now. */
  async summon(id: string): Promise<boolean> {
    if (!isOwnId(id)) return false;
    const until = performance.now() + mostMs;
    let summoned: string | undefined;
    for (let pauseMs = firstPauseMs; performance.now() < until; pauseMs = Math.min(2 * pauseMs, mostPauseMs)) {
      const solo = await this.solo(id);
      if (!solo || solo.last) return !solo && this.isRegistered(id);
      if (solo.summons !== summoned) await this.#client.resolve(solo.summons);
      summoned = solo.summons;
      await sleep(pauseMs);
    }
    throw busy(`Execution ${id} does not answer`, 1);
  }

  /** Lets an execution that has ended without a register get one. Returns whether it has one now. */
  async register(id: string): Promise<boolean> {
    if (!isOwnId(id)) return false;
    const solo = await this.solo(id);
    if (solo?.last) await this.#client.write(this.#names.drive, id, "registerSolo", null);
    return this.isRegistered(id);
  }
}

const toSoloBrief = ({ last }: Solo): Brief =>
  last ? { status: last.to, epoch: 1, isDriven: false } : { status: "running", epoch: 0, isDriven: true };
