import manifest from "../../../package.json" with { type: "json" };
import type { Logger } from "../../core/log.ts";
import type { Totals } from "../../core/metrics.ts";
import { toSpanIds, type Attributes } from "../../core/trace.ts";
import type { CleanAttributes, OtelSdk, SdkSpan } from "../otel.ts";
import { newSpanId, newTraceId } from "../span-ids.ts";
import { encodeJson } from "./encode-json.ts";
import { encodeProtobuf } from "./encode-protobuf.ts";
import { SpanExporter } from "./exporter.ts";
import { createPost } from "./post.ts";
import { readSettings } from "./settings.ts";

export interface OtlpParts {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clean: CleanAttributes;
  readonly logger: Pick<Logger, "warn">;
  readonly totals: Totals;
}

/** Exports spans over OTLP/HTTP. Returns undefined, after a warning, if the environment is wrong. */
export function createOtlpSdk({ env, clean, logger, totals }: OtlpParts): OtelSdk | undefined {
  const settings = readSettings(env, (message) => logger.warn(message));
  if (!settings) return undefined;
  const { sampler, resource, protocol } = settings;
  const scope = { name: "agentserve", version: manifest.version };
  const encode = protocol === "http/json" ? encodeJson : encodeProtobuf;
  const post = createPost(settings);
  const exporter = new SpanExporter({
    settings,
    post,
    cut: () => post.close(),
    totals,
    encode: (spans) => encode({ resource, scope, spans }, clean),
    onDropped: (reason, dropped) =>
      logger.warn("Spans were dropped: the OTLP endpoint did not take them", {
        host: settings.url.host,
        reason,
        dropped,
      }),
  });

  return {
    active: () => undefined,
    start({ name, kind, parent, links, attributes: given }): SdkSpan {
      const traceId = parent?.traceId ?? newTraceId();
      const isSampled = sampler(traceId, parent);
      const ids = toSpanIds(traceId, newSpanId(), isSampled);
      if (!isSampled) return { ...ids, set() {}, end() {}, enter };
      const start = wallClock();
      const began = performance.now();
      const attributes: Record<string, Attributes[string]> = { ...given };
      return {
        ...ids,
        set: (more) => void Object.assign(attributes, more),
        end(error) {
          const end = start + (performance.now() - began); // not by the wall clock, which jumps
          exporter.push({ ...ids, parentSpanId: parent?.spanId, name, kind, start, end, attributes, links, error });
        },
        enter,
      };
    },
    isPaused: () => exporter.isPaused,
    async flush(ms) {
      const lost = await exporter.close(ms);
      post.close();
      if (lost > 0) throw new Error(`${lost} spans were not exported`);
    },
  };
}

const enter = <T>(run: () => T): T => run();

let origin = Date.now() - performance.now();
/** Returns the time since 1970 in milliseconds with fractions: the spans of one request may begin in one millisecond. */
function wallClock(): number {
  const now = performance.now();
  const wall = Date.now();
  if (Math.abs(wall - origin - now) > maxDriftMs) origin = wall - now;
  return origin + now;
}
const maxDriftMs = 20;
