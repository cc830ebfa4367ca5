import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, Transition } from "../../../engine/execution.ts";
import type { Retention } from "../../../engine/retention.ts";
import type { Calls, ServiceNames } from "../calls.ts";
import { toIndex } from "../list.ts";
import type { RegisterLink } from "./drive-link.ts";

/** The state of an execution without a register: a key of the drive's object. */
export interface Solo {
  readonly execution: Execution;
  /** The awakeable by which the drive is asked for a register. */
  readonly summons: string;
  /** The end. Undefined while it runs. */
  readonly last?: Transition | undefined;
}

const soloKey = "solo";
export const readSolo = (context: Pick<ObjectContext, "get">): Promise<Solo | null> => context.get<Solo>(soloKey);

export const toSoloState = ({ execution, last }: Solo): ExecutionState =>
  last ? { execution, status: last.to, epoch: 1, last } : { execution, status: "running", epoch: 0, last };

export type Summoned = { readonly isSummoned: true };

interface SoloParts {
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly retention: Retention;
}

/**
 * The first drive of an execution whose id nobody chose and whose caller waits. Restate runs it as a single invocation.
 *
 * S1. It has no register: its drive is started by the ingress, and nothing else can change its status. So it ends without
 *     asking.
 * S2. It gets a register when it is suspended, hands over, was interrupted, or is summoned: somebody wants to change it, or
 *     waits for it on another replica.
 * S3. The state of the drive's object is cleared after the register exists. Readers ask the register first, then the drive,
 *     then the register again.
 * S4. Its start may arrive twice. The second one finds a row.
 */
export class SoloDrive {
  readonly summons: RestatePromise<Summoned>;
  readonly #summonsId: string;
  readonly #context: ObjectContext;
  readonly #parts: SoloParts;
  readonly #execution: Execution;

  constructor(context: ObjectContext, parts: SoloParts, execution: Execution) {
    const { id, promise } = context.awakeable<null>();
    this.summons = (promise as RestatePromise<null>).map((): Summoned => ({ isSummoned: true }));
    this.#summonsId = id;
    this.#context = context;
    this.#parts = parts;
    this.#execution = execution;
  }

  get summonsId(): string {
    return this.#summonsId;
  }

  begin(): void {
    this.#store(undefined);
  }
  end(last: Transition): void {
    this.#store(last);
    const { calls, names, retention } = this.#parts;
    const target = { service: names.drive, key: this.#context.key, method: "clear" };
    if (retention.endedMs !== undefined) calls.tell(this.#context, target, null, retention.endedMs);
  }
  #store(last: Transition | undefined): void {
    const solo: Solo = { execution: this.#execution, summons: this.#summonsId, last };
    this.#context.set(soloKey, solo);
    this.#context.set("index", toIndex(this.#execution, last?.to ?? "running"));
  }

  async register(link: RegisterLink): Promise<void> {
    await link.adopt();
    forgetSolo(this.#context);
  }
}

/** The execution has a register. */
export function forgetSolo(context: ObjectContext): void {
  context.clear(soloKey);
  context.clear("index");
}
