export type Sdk = typeof import("ai");

let loading: Promise<Sdk> | undefined;

/** Loads the AI SDK. Loading takes about 170 ms, so it is deferred to the first call of an agent. */
export function loadSdk(): Promise<Sdk> {
  // Stops the SDK from printing warnings of a model to the console. They are logged instead.
  globalThis.AI_SDK_LOG_WARNINGS ??= false;
  return (loading ??= import("ai"));
}
