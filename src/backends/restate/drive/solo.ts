import type { ObjectContext, RestatePromise } from "@restatedev/restate-sdk";
import type { Execution, ExecutionState, ExecutionStatus, Transition } from "../../../engine/execution.ts";
import type { Retention } from "../../../engine/retention.ts";
import type { Calls, ServiceNames } from "../calls.ts";
import { toIndex } from "../list-index.ts";
import type { RegisterLink } from "./drive-link.ts";
import { toRowKey, type StoredRow } from "./rows.ts";

/** The state of an execution without a register: a key of the drive's object. */
export interface Solo {
  readonly execution: Execution;
  /** The awakeable by which the drive is asked for a register. */
  readonly summons: string;
  /** The end. Undefined while it runs. */
  readonly last?: Transition | undefined;
}
/** As it is stored. The row of the end is part of it, so that a kill cannot lose it. */
interface StoredSolo extends Solo {
  readonly row?: StoredRow | undefined;
}

const soloKey = "solo";
/** Restate accepts messages of 32 MiB. */
const mostChars = 5_000_000;
type Reading = Pick<ObjectContext, "get">;
export async function readSolo(context: Reading): Promise<Solo | null> {
  const solo = await context.get<StoredSolo>(soloKey);
  return solo && { execution: solo.execution, summons: solo.summons, last: solo.last };
}
/** Stores the row of an end whose drive was killed before it had done so. */
export async function finishSolo(context: ObjectContext): Promise<StoredRow | undefined> {
  const { row } = (await context.get<StoredSolo>(soloKey)) ?? {};
  if (row) context.set(toRowKey(row.number), row);
  return row;
}

export const toSoloState = ({ execution, last }: Solo): ExecutionState =>
  last ? { execution, status: last.to, epoch: 1, last } : { execution, status: "running", epoch: 0, last };

export type Summoned = { readonly isSummoned: true };

interface SoloParts {
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly retention: Retention;
}

/**
 * The first drive of an execution whose caller waits, and gets its id with the result. Restate runs it as a single invocation.
 *
 * S1. It has no register: its drive is started by the ingress, and nothing else can change its status. So it ends without
 *     asking.
 * S2. It gets a register when it is suspended, hands over, was interrupted, or is summoned: a request changes it, or waits
 *     for it on another replica. One that has ended gets it by `registerSolo`, for a retry.
 * S3. The state of the drive's object is cleared after the register exists. Readers ask the register first, then the drive,
 *     then the register again.
 * S4. Its start may arrive twice. The second one finds a row.
 * S5. It starts no step before Restate has its state: a step may tell the id to others.
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
    this.#store("running", {});
  }
  /** Returns true if it may end without a register. Its state has the result twice, 3 bytes per character at most. */
  canEnd(next: Transition): boolean {
    const { length } = next.to === "completed" ? (next.result ?? "") : "";
    return next.to !== "suspended" && length + this.#execution.input.length <= mostChars;
  }
  /** Ends it. The row follows, and is stored again. */
  end(last: Transition, row: StoredRow): void {
    const { calls, names, retention } = this.#parts;
    const target = { service: names.drive, key: this.#context.key, method: "expireSolo" };
    if (retention.endedMs !== undefined) calls.tell(this.#context, target, null, retention.endedMs);
    this.#store(last.to, { last, row });
  }
  #store(status: ExecutionStatus, end: Pick<StoredSolo, "last" | "row">): void {
    const solo: StoredSolo = { execution: this.#execution, summons: this.#summonsId, ...end };
    this.#context.set("index", toIndex(this.#execution, status));
    this.#context.set(soloKey, solo);
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
