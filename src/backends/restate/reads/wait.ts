import type { Context, ServiceDefinition } from "@restatedev/restate-sdk";
import type { ExecutionState } from "../../../engine/execution.ts";
import type { HandlerName, ServiceParts } from "../calls.ts";
import type { AnswerCursor } from "../conversations/answers.ts";
import type { LineNews } from "../conversations/line.ts";
import type { TurnOrders } from "../conversations/line-turn.ts";
import type { PlaceNews } from "../groups/service.ts";
import type { WaitInput, WatchInput } from "../register/register-state.ts";

/** The handlers as they are called. Each adds an awakeable to its input, for the object that resolves it. */
export interface WaitCalls {
  /** Resolves at the next suspension or end after an epoch. Null: ask again. */
  settled(input: Omit<WaitInput, "awakeable"> & { readonly id: string }): ExecutionState | null;
  /** Resolves when there may be rows after a row. */
  row(input: Omit<WatchInput, "awakeable"> & { readonly id: string }): null;
  /** Resolves when an execution has a place in its group, or is not in it. */
  place(input: KeyInput): PlaceNews;
  /** Resolves when a place in the line of a conversation has the turn, or is dropped. */
  turn(input: KeyInput): LineNews;
  /** Resolves when there is something to tell the runner of a turn. `isPublishing`: it knows of readers elsewhere. */
  orders(input: KeyInput & { readonly isPublishing: boolean }): TurnOrders;
  /** Resolves when batch n + 1 of an answer may exist. */
  answer(input: AnswerCursor & { readonly turnId: string }): null;
}
/** The key of a group with an execution, or the key of a conversation with a place. */
interface KeyInput {
  readonly key: string;
  readonly id: string;
}
export type WaitResult<Name extends keyof WaitCalls> = ReturnType<WaitCalls[Name]>;
export type WaitParameter<Name extends keyof WaitCalls> = Parameters<WaitCalls[Name]>[0];

// Restate's journal has the text of an input: a wait that another build began is replayed only with the same field order.
type ToInput = (awakeable: string) => object;
const last =
  (input: object): ToInput =>
  (awakeable) => ({ ...input, awakeable });

/** The service that holds a call of a replica open until an object resolves its awakeable. */
export function createWait({ sdk, names, calls }: ServiceParts): ServiceDefinition<string, unknown> {
  function wait(context: Context, handler: HandlerName, key: string, toInput: ToInput): Promise<unknown> {
    const { id: awakeable, promise } = context.awakeable<unknown>();
    calls.tell(context, handler, toInput(awakeable), { key });
    return promise;
  }
  const handlers: { [Name in keyof WaitCalls]: (context: Context, input: WaitParameter<Name>) => Promise<unknown> } = {
    settled: (context, { id, ...input }) =>
      wait(context, "register/wait", id, (awakeable) => ({ awakeable, ...input })),
    row: (context, { id, ...input }) => wait(context, "register/watch", id, last(input)),
    place: (context, { key, ...input }) => wait(context, "group/watch", key, last(input)),
    turn: (context, { key, ...input }) => wait(context, "conversation/watch", key, last(input)),
    orders: (context, { key, ...input }) => wait(context, "conversation/orders", key, last(input)),
    answer: (context, { turnId, ...input }) => wait(context, "answer/watch", turnId, last(input)),
  };
  return sdk.service({
    name: names.wait,
    options: {
      journalRetention: 0,
      idempotencyRetention: 0,
      inactivityTimeout: 60_000,
      // The call of a lost replica must not be retried for ever.
      retryPolicy: { initialInterval: 50, maxInterval: 1000, maxAttempts: 10, onMaxAttempts: "kill" },
    },
    handlers,
  });
}
