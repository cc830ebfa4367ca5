import type { Context, ServiceDefinition } from "@restatedev/restate-sdk";
import type { ExecutionState } from "../../../engine/execution.ts";
import type { Calls, ServiceNames } from "../calls.ts";
import type { AnswerPlace } from "../conversations/answers.ts";
import type { LineNews } from "../conversations/line.ts";
import type { TurnOrders } from "../conversations/line-turn.ts";
import type { PlaceNews } from "../groups/service.ts";
import type { WatchInput } from "../register/register-state.ts";
import type { RestateSdk } from "../sdk.ts";

export interface OrdersInput {
  /** The conversation. */
  readonly key: string;
  /** The place of the turn. */
  readonly id: string;
  /** True if the runner knows of readers elsewhere. */
  readonly isPublishing: boolean;
}

/** The service that holds a call of a replica open until an object resolves its awakeable. */
export function createWait({
  sdk,
  names,
  calls,
}: {
  sdk: RestateSdk;
  names: ServiceNames;
  calls: Calls;
}): ServiceDefinition<string, unknown> {
  return sdk.service({
    name: names.wait,
    options: {
      journalRetention: 0,
      idempotencyRetention: 0,
      inactivityTimeout: 60_000,
      // A call of a replica that is gone must not be retried for ever.
      retryPolicy: { initialInterval: 50, maxInterval: 1000, maxAttempts: 10, onMaxAttempts: "kill" },
    },
    handlers: {
      /** Resolves at the next suspension or end after an epoch. Null: ask again. */
      async settled(
        context: Context,
        { id, afterEpoch }: { id: string; afterEpoch: number },
      ): Promise<ExecutionState | null> {
        const { id: awakeable, promise } = context.awakeable<ExecutionState | null>();
        calls.tell(context, { service: names.register, key: id, method: "wait" }, { awakeable, afterEpoch });
        return promise;
      },
      /** Resolves when there may be rows after a row. */
      async row(context: Context, { id, ...input }: Omit<WatchInput, "awakeable"> & { id: string }): Promise<null> {
        const { id: awakeable, promise } = context.awakeable<null>();
        calls.tell(context, { service: names.register, key: id, method: "watch" }, { ...input, awakeable });
        await promise;
        return null;
      },
      /** Resolves when an execution has a place in its group, or is not in it. */
      async place(context: Context, { key, id }: { key: string; id: string }): Promise<PlaceNews> {
        const { id: awakeable, promise } = context.awakeable<PlaceNews>();
        calls.tell(context, { service: names.group, key, method: "watch" }, { id, awakeable });
        return promise;
      },
      /** Resolves when a place in the line of a conversation has the turn, or is gone. */
      async turn(context: Context, { key, id }: { key: string; id: string }): Promise<LineNews> {
        const { id: awakeable, promise } = context.awakeable<LineNews>();
        calls.tell(context, { service: names.conversation, key, method: "watch" }, { id, awakeable });
        return promise;
      },
      /** Resolves when there is something to tell the runner of a turn. */
      async orders(context: Context, { key, ...input }: OrdersInput): Promise<TurnOrders> {
        const { id: awakeable, promise } = context.awakeable<TurnOrders>();
        calls.tell(context, { service: names.conversation, key, method: "orders" }, { ...input, awakeable });
        return promise;
      },
      /** Resolves when there may be more of an answer than a number of batches. */
      async answer(context: Context, { turnId, ...place }: AnswerPlace & { turnId: string }): Promise<null> {
        const { id: awakeable, promise } = context.awakeable<null>();
        calls.tell(context, { service: names.answer, key: turnId, method: "watch" }, { ...place, awakeable });
        return promise;
      },
    },
  });
}
