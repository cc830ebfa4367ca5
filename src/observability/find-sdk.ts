import type { OtelSdk } from "./otel.ts";

/** The SDK that the application has registered, now or later. For those who have none nothing is imported. */
export interface SdkFinder {
  get(): OtelSdk | undefined;
  /** Resolves when one that is registered already can be used. */
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

/** As `@opentelemetry/api` of any 1.x leaves it for the others of its kind. */
function isRegistered(): boolean {
  const api = (globalThis as Record<symbol, unknown>)[apiSymbol];
  return api !== undefined && (api as { trace?: unknown }).trace !== undefined;
}
const apiSymbol = Symbol.for("opentelemetry.js.api.1");
