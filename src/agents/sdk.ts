export type Sdk = typeof import("ai");

let loading: Promise<Sdk> | undefined;

/** The AI SDK. Loading it takes a sixth of a second, so that waits for the first call of an agent. */
export function loadSdk(): Promise<Sdk> {
  // It would print a model's warnings to the console. They go to the logger instead.
  globalThis.AI_SDK_LOG_WARNINGS ??= false;
  return (loading ??= import("ai"));
}
