import type { Context, InvocationId, ObjectOptions } from "@restatedev/restate-sdk";
import type { RestateSdk } from "./sdk.ts";

/** The names of the services of one server. */
export interface ServiceNames {
  readonly register: string;
  readonly drive: string;
  readonly wait: string;
  readonly conversation: string;
  readonly group: string;
  readonly mailbox: string;
  readonly schedule: string;
  readonly records: string;
  readonly turn: string;
  readonly answer: string;
  readonly usage: string;
}
export const toNames = (name: string): ServiceNames => ({
  register: name,
  drive: `${name}.drive`,
  wait: `${name}.wait`,
  conversation: `${name}.conversation`,
  group: `${name}.group`,
  mailbox: `${name}.mailbox`,
  schedule: `${name}.schedule`,
  records: `${name}.records`,
  turn: `${name}.turn`,
  answer: `${name}.answer`,
  usage: `${name}.usage`,
});

/** The handler of another service. */
interface Target {
  readonly service: string;
  /** The execution, the conversation, or the name and key of events. */
  readonly key: string;
  readonly method: string;
}

/** Calls between handlers. Values are JSON. */
export interface Calls {
  call<T>(context: Context, target: Target, parameter: unknown): Promise<T>;
  /** Sends without waiting for the end. Resolves to the id of the new invocation. */
  send(context: Context, target: Target, parameter: unknown, delayMs?: number): Promise<InvocationId>;
  /** Sends without waiting for anything. */
  tell(context: Context, target: Target, parameter: unknown, delayMs?: number): void;
}

export function createCalls({ serde }: RestateSdk): Calls {
  const inputSerde = serde.json;
  const toSend = (target: Target, parameter: unknown, delay: number | undefined) => ({
    ...target,
    parameter,
    inputSerde,
    ...(delay !== undefined && { delay }),
  });
  return {
    call: <T>(context: Context, target: Target, parameter: unknown): Promise<T> =>
      context.genericCall({ ...target, parameter, inputSerde, outputSerde: serde.json }) as Promise<T>, // as its handler returns it
    send: (context, target, parameter, delay) => context.genericSend(toSend(target, parameter, delay)).invocationId,
    tell: (context, target, parameter, delay) => void context.genericSend(toSend(target, parameter, delay)),
  };
}

/** Restate pauses an invocation after a number of attempts, by default: nothing would continue it. */
export const forever = { exponentiationFactor: 2, maxAttempts: 2_147_483_648 } as const;

/** The options of an object whose handlers are all short. */
export const shortHandlers: ObjectOptions = {
  journalRetention: 0,
  idempotencyRetention: 0,
  enableLazyState: true,
  // A replica that hangs must not keep the object.
  inactivityTimeout: 2_000,
  abortTimeout: 1_000,
  // For ever: a handler that was given up half-way would leave half of its changes.
  retryPolicy: { ...forever, initialInterval: 50, maxInterval: 1_000 },
};

/**
 * The time that a handler gives what it reads over the ingress. No caller waits for it, and a handler that gives up is repeated:
 * on a busy cluster that is more work than the answer.
 */
export const handlerReadMs = 30_000;

/** The options of handlers that only read: their callers give up after 2 s, so Restate must not keep trying. */
export const reading = {
  retryPolicy: { initialInterval: 50, maxInterval: 500, maxAttempts: 6, onMaxAttempts: "kill" },
} as const;
