import { isExecutionId } from "../../../core/id.ts";
import type { ExecutionState } from "../../../engine/execution.ts";
import type { RestateClient } from "../client/client.ts";
import { SoloExecutions } from "../former/solo.ts";
import type { Brief } from "../register/register-state.ts";

/** The states of executions. */
export class States {
  readonly solo: SoloExecutions;
  readonly #client: RestateClient;

  constructor(client: RestateClient) {
    this.solo = new SoloExecutions(client);
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
    return this.solo.find(id, read, toFound);
  }
}
