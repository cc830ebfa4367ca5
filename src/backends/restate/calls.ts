import type { Context, InvocationId } from "@restatedev/restate-sdk";
import type { RestateSdk } from "./sdk.ts";

/** The names of the services of one server. */
export interface ServiceNames {
  readonly register: string;
  readonly drive: string;
  readonly wait: string;
  readonly conversation: string;
}
export const toNames = (name: string): ServiceNames => ({
  register: name,
  drive: `${name}.drive`,
  wait: `${name}.wait`,
  conversation: `${name}.conversation`,
});

/** The handler of another service. */
interface Target {
  readonly service: string;
  /** The execution or the conversation. */
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

/** The options of handlers that only read: their callers give up after 2 s, so Restate must not keep trying. */
export const reading = {
  retryPolicy: { initialInterval: 50, maxInterval: 500, maxAttempts: 6, onMaxAttempts: "kill" },
} as const;
