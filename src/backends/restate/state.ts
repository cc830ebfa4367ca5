import type { ObjectContext, ObjectSharedContext, RestatePromise } from "@restatedev/restate-sdk";
import type { RestateSdk } from "./sdk.ts";

/** The state of an object, for a handler that reads it. */
export interface SharedState {
  readonly sdk: RestateSdk;
  readonly context: ObjectSharedContext;
}
/** The same, for a handler that changes it. */
export interface State extends SharedState {
  readonly context: ObjectContext;
}

/** Reads many keys at once. One `get` after another takes seconds for thousands of them. */
export function readAll<T>({ sdk, context }: SharedState, keys: readonly string[]): Promise<(T | null)[]> {
  // `get` returns a RestatePromise, which its type hides. `Promise.all` would wait for each of them separately.
  return sdk.RestatePromise.all(keys.map((key) => context.get<T>(key) as RestatePromise<T | null>));
}
