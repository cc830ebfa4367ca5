import type {
  Context,
  InvocationId,
  ObjectContext,
  ObjectOptions,
  ObjectSharedContext,
  RestatePromise,
  VirtualObjectDefinition,
} from "@restatedev/restate-sdk";
import type { Retention } from "../../engine/retention.ts";
import type { RestateSdk } from "./sdk.ts";

const services = [
  "drive",
  "wait",
  "conversation",
  "group",
  "mailbox",
  "schedule",
  "records",
  "turn",
  "answer",
  "usage",
] as const;
type ServiceName = "register" | (typeof services)[number];
/** The service names of one server. */
export type ServiceNames = Readonly<Record<ServiceName, string>>;
export function toNames(name: string): ServiceNames {
  const others = services.map((service) => [service, `${name}.${service}`] as const);
  return { register: name, ...Object.fromEntries(others) } as ServiceNames; // `fromEntries` forgets the keys
}

/** A handler of a service. */
export type HandlerName = `${ServiceName}/${string}`;
/** Returns the name of a service in Restate, and its method. */
export function toTarget(names: ServiceNames, handler: HandlerName): { service: string; method: string } {
  const [service, method] = handler.split("/") as [ServiceName, string];
  return { service: names[service], method };
}

type Caller = Context & { readonly key?: string };
interface CallOptions {
  /** The execution, the conversation, or the name and key of events. @default the key of the caller */
  readonly key?: string | undefined;
  readonly delayMs?: number | undefined;
}

/** Calls between handlers. Values are JSON. */
export interface Calls {
  call<T>(context: Caller, handler: HandlerName, input: unknown, options?: CallOptions): Promise<T>;
  /** Sends without waiting for the end. Resolves to the id of the new invocation. */
  send(context: Caller, handler: HandlerName, input: unknown, options?: CallOptions): Promise<InvocationId>;
  /** Sends without waiting for anything. */
  tell(context: Caller, handler: HandlerName, input: unknown, options?: CallOptions): void;
}

/** The parts that all services of an endpoint share. */
export interface ServiceParts {
  readonly sdk: RestateSdk;
  readonly names: ServiceNames;
  readonly calls: Calls;
  readonly retention: Retention;
  readonly object: (service: ServiceName, options: ObjectOptions, handlers: Handlers) => ObjectService;
  /** Defines a handler that only reads. */
  readonly reads: <Input, T>(read: Reader<Input, T>) => Reader<Input, T>;
}
export type ObjectService = VirtualObjectDefinition<string, unknown>;
type Handlers = Readonly<Record<string, (context: ObjectContext, input: never) => Promise<unknown>>>;
type Reader<Input, T> = (context: ObjectSharedContext, input: Input) => Promise<T>;

export function toServiceParts(sdk: RestateSdk, names: ServiceNames, retention: Retention): ServiceParts {
  return {
    sdk,
    names,
    calls: createCalls(sdk, names),
    retention,
    object: (service, options, handlers) =>
      // Each handler knows the type of its input.
      sdk.object({ name: names[service], options, handlers: handlers as Record<string, Reader<unknown, unknown>> }),
    reads: (read) => sdk.handlers.object.shared(reading, read),
  };
}

export function createCalls({ serde }: RestateSdk, names: ServiceNames): Calls {
  const toCall = (caller: Caller, handler: HandlerName, parameter: unknown, { key, delayMs }: CallOptions = {}) => ({
    ...toTarget(names, handler),
    key: key ?? caller.key ?? "",
    parameter,
    inputSerde: serde.json,
    ...(delayMs !== undefined && { delay: delayMs }),
  });
  return {
    call: <T>(...args: Parameters<typeof toCall>): Promise<T> =>
      args[0].genericCall({ ...toCall(...args), outputSerde: serde.json }) as Promise<T>, // as its handler returns it
    send: (...args) => args[0].genericSend(toCall(...args)).invocationId,
    tell: (...args) => void args[0].genericSend(toCall(...args)),
  };
}

/** Restate pauses an invocation after a number of attempts, by default: nothing would continue it. */
export const forever = { exponentiationFactor: 2, maxAttempts: 2_147_483_648 } as const;

/** The options of all objects. */
export const objectOptions: ObjectOptions = {
  journalRetention: 0,
  idempotencyRetention: 0,
  // For ever: a handler that was given up half-way would leave half of its changes.
  retryPolicy: { ...forever, initialInterval: 50, maxInterval: 1_000 },
};
/** The options of an object whose handlers are all short. */
export const shortHandlers: ObjectOptions = {
  ...objectOptions,
  enableLazyState: true,
  // A replica that hangs must not keep the object.
  inactivityTimeout: 2_000,
  abortTimeout: 1_000,
};

/**
 * Time limit of a handler's reads over the ingress. No caller waits for it. After it, the handler is repeated: more work for a
 * busy cluster than the answer.
 */
export const handlerReadMs = 30_000;

/** The options of handlers that only read: their callers give up after 2 s, so Restate must not keep trying. */
export const reading = {
  retryPolicy: { initialInterval: 50, maxInterval: 500, maxAttempts: 6, onMaxAttempts: "kill" },
} as const;

/** The state of an object, for a handler that reads it. */
export interface SharedState {
  readonly sdk: RestateSdk;
  readonly context: ObjectSharedContext;
}
/** The state of an object, for a handler that changes it. */
export interface State extends SharedState {
  readonly context: ObjectContext;
}

/** Reads many keys at once. One `get` after another takes seconds for thousands of them. */
export function readAll<T>({ sdk, context }: SharedState, keys: readonly string[]): Promise<(T | null)[]> {
  // `get` returns a RestatePromise, which its type hides. `Promise.all` would wait for each of them separately.
  return sdk.RestatePromise.all(keys.map((key) => context.get<T>(key) as RestatePromise<T | null>));
}
