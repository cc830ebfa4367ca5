import type { OtelSdk } from "./otel.ts";

/** Finds the SDK of the application, even if it is registered later. Without an SDK, nothing is imported. */
export interface SdkFinder {
  get(): OtelSdk | undefined;
  /** Resolves when an SDK that is already registered can be used. */
  readonly ready: Promise<unknown>;
}

export function findSdk(): SdkFinder {
  let sdk: OtelSdk | undefined;
  let loading: Promise<unknown> | undefined;
  function get(): OtelSdk | undefined {
    if (!sdk && isRegistered()) loading ??= import("./otel-sdk.ts").then((module) => (sdk = module.createOtelSdk()));
    return sdk;
  }
  get();
  return { get, ready: Promise.resolve(loading) };
}

/** Reads the global that all 1.x versions of `@opentelemetry/api` share. */
function isRegistered(): boolean {
  const api = (globalThis as Record<symbol, unknown>)[apiSymbol];
  return api !== undefined && (api as { trace?: unknown }).trace !== undefined;
}
const apiSymbol = Symbol.for("opentelemetry.js.api.1");
