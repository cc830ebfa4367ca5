import { randomUUID } from "node:crypto";
import { Agent as HttpAgent } from "node:http";
import { Agent as HttpsAgent } from "node:https";
import { OTLPTraceExporter as JsonExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { OTLPTraceExporter as ProtobufExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import { defaultResource, resourceFromAttributes } from "@opentelemetry/resources";
import { TracerProvider } from "@opentelemetry/sdk-trace";
import type { Logger } from "../../core/log.ts";
import type { Totals } from "../../core/metrics.ts";
import { createOtelSdk } from "../otel-sdk.ts";
import type { CleanAttributes, OtelSdk } from "../otel.ts";
import { ExportQueue } from "./export-queue.ts";
import { readSettings, type OtlpSettings } from "./settings.ts";

export interface OtlpParts {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clean: CleanAttributes;
  readonly logger: Pick<Logger, "warn">;
  readonly totals: Totals;
}

/**
 * Exports spans over OTLP/HTTP by OpenTelemetry's packages, which are bundled: this module is only loaded for the
 * export. Returns undefined, after a warning, if the environment is wrong.
 */
export function createOtlpSdk({ env, clean, logger, totals }: OtlpParts): OtelSdk | undefined {
  const settings = readSettings(env, (message) => logger.warn(message));
  if (!settings) return undefined;
  const { exporter, cut } = createExporter(settings);
  const queue = new ExportQueue({
    settings,
    exporter,
    totals,
    onDropped: (reason, dropped) =>
      logger.warn("Spans were dropped: the OTLP endpoint did not take them", {
        host: settings.url.host,
        reason,
        dropped,
      }),
  });
  const resource = resourceFromAttributes({ "service.instance.id": randomUUID(), ...settings.resource });
  const provider = new TracerProvider({
    sampler: settings.sampler,
    resource: defaultResource().merge(resource),
    spanProcessors: [queue],
  });
  return createOtelSdk({
    clean,
    provider,
    isPaused: () => queue.isPaused,
    async flush(ms) {
      const lost = await queue.close(ms);
      cut();
      if (lost > 0) throw new Error(`${lost} spans were not exported`);
    },
  });
}

/** Creates the exporter, and a function that ends its requests and retries. */
function createExporter({ url, protocol, timeoutMs }: OtlpSettings): {
  exporter: JsonExporter;
  cut: () => void;
} {
  const agent = new (url.protocol === "https:" ? HttpsAgent : HttpAgent)({ keepAlive: true, maxSockets: 1 });
  const Exporter = protocol === "http/json" ? JsonExporter : ProtobufExporter;
  const exporter = new Exporter({
    url: url.href,
    timeoutMillis: timeoutMs,
    concurrencyLimit: Infinity, // the queue is bounded, and all of it is sent at the shutdown
    httpAgentOptions: () => agent,
  });
  return {
    exporter,
    cut() {
      agent.createConnection = (_, callback) => void callback?.(new Error("closed"), undefined!);
      agent.destroy();
    },
  };
}
