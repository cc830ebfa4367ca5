import type { Logger } from "../core/log.ts";
import type { Totals } from "../core/metrics.ts";
import type { CleanAttributes, OtelSdk } from "./otel.ts";

/** Finds the consumer of spans: the SDK of the application, even if it is registered later, or else our OTLP export. */
export interface SdkFinder {
  get(): OtelSdk | undefined;
  /** Resolves when the consumer at the start is loaded. */
  readonly ready: Promise<unknown>;
  /** Exports the finished spans within a time. Rejects if that fails. */
  flush(ms: number): Promise<void>;
}

export interface FinderParts {
  readonly clean: CleanAttributes;
  readonly logger: Pick<Logger, "warn">;
  readonly totals: Totals;
}

/** Imports an SDK or the OTLP export only if it is used. */
export function findSdk(parts: FinderParts): SdkFinder {
  let theirs: OtelSdk | undefined;
  let loading: Promise<unknown> | undefined;
  let ours: OtelSdk | undefined;
  function get(): OtelSdk | undefined {
    if (!theirs && isRegistered())
      loading ??= import("./otel-sdk.ts").then((module) => (theirs = module.createRegisteredSdk(parts.clean)));
    return theirs ?? ours;
  }
  async function loadExport(): Promise<void> {
    const { createOtlpSdk } = await import("./otlp/otlp-sdk.ts");
    ours = createOtlpSdk({ ...parts, env: process.env });
  }
  get();
  const ready = loading ?? (isExported(process.env, parts.logger) ? loadExport() : Promise.resolve());
  return {
    get,
    ready,
    async flush(ms) {
      await Promise.all([theirs?.flush(ms), ours?.flush(ms)]);
    },
  };
}

/** Reads the global that all 1.x versions of `@opentelemetry/api` share. */
function isRegistered(): boolean {
  const api = (globalThis as Record<symbol, unknown>)[apiSymbol];
  return api !== undefined && (api as { trace?: unknown }).trace !== undefined;
}
const apiSymbol = Symbol.for("opentelemetry.js.api.1");

/** Returns true if the environment asks for an export. */
function isExported(env: NodeJS.ProcessEnv, logger: Pick<Logger, "warn">): boolean {
  const has = (name: string): boolean => (env[name] ?? "").trim() !== "";
  if (!has("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") && !has("OTEL_EXPORTER_OTLP_ENDPOINT")) return false;
  if (env["OTEL_SDK_DISABLED"]?.trim().toLowerCase() === "true") return false;
  const exporter = env["OTEL_TRACES_EXPORTER"]?.trim() || "otlp";
  if (exporter !== "otlp" && exporter !== "none")
    logger.warn("OTEL_TRACES_EXPORTER: expected otlp or none. Spans are not exported");
  return exporter === "otlp";
}
