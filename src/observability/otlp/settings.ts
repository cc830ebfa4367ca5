import { randomUUID } from "node:crypto";
import { validateHeaderName, validateHeaderValue } from "node:http";
import manifest from "../../../package.json" with { type: "json" };
import type { Attributes } from "../../core/trace.ts";
import { toSampler, type Sampler } from "./sampler.ts";

/** The export of spans as the environment describes it. */
export interface OtlpSettings {
  readonly url: URL;
  readonly protocol: "http/protobuf" | "http/json";
  readonly headers: Readonly<Record<string, string>>;
  readonly isCompressed: boolean;
  /** The time limit of one request. */
  readonly timeoutMs: number;
  /** The attributes of this process. */
  readonly resource: Attributes;
  readonly sampler: Sampler;
  /** Max spans that wait. Further ones are dropped. */
  readonly queueSpans: number;
  /** Max spans of one request. */
  readonly batchSpans: number;
  /** The longest time that a span waits for others. */
  readonly delayMs: number;
}

type Env = Readonly<Record<string, string | undefined>>;
/** Called with a message about a variable. It never contains the value, which may have a secret. */
type Warn = (message: string) => void;

/** Reads the variables of OpenTelemetry. Returns undefined, after a warning, if spans cannot be exported. */
export function readSettings(env: Env, warn: Warn): OtlpSettings | undefined {
  const url = toUrl(env, warn);
  const protocol = toProtocol(env, warn);
  const headers = toHeaders(env, warn);
  if (!url || !protocol || !headers) return undefined;
  const toNumber = (names: readonly string[], preset: number): number => readNumber(env, names, preset, warn);
  const queueSpans = toNumber(["OTEL_BSP_MAX_QUEUE_SIZE"], 16_384);
  return {
    url,
    protocol,
    headers,
    isCompressed: isCompressed(env, warn),
    timeoutMs: toNumber(both("TIMEOUT"), 10_000),
    resource: toResource(env, warn),
    sampler: readSampler(env, warn),
    queueSpans,
    batchSpans: Math.min(queueSpans, toNumber(["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], 512)),
    delayMs: toNumber(["OTEL_BSP_SCHEDULE_DELAY"], 5_000),
  };
}

const notExported = "Spans are not exported";
/** The variable for traces, and the one for all signals. */
const both = (name: string): string[] => [`OTEL_EXPORTER_OTLP_TRACES_${name}`, `OTEL_EXPORTER_OTLP_${name}`];
/** Returns the first variable that is set. An empty one is not. */
function find(env: Env, names: readonly string[]): { name: string; value: string } | undefined {
  const name = names.find((one) => env[one]?.trim());
  return name === undefined ? undefined : { name, value: env[name]!.trim() };
}

function toUrl(env: Env, warn: Warn): URL | undefined {
  const [own, shared] = both("ENDPOINT");
  const { name = shared!, value = "" } = find(env, [own!, shared!]) ?? {};
  if (!/^https?:\/\//i.test(value) || !URL.canParse(value)) {
    warn(`${name}: expected a URL that begins with http:// or https://. ${notExported}`);
    return undefined;
  }
  const url = new URL(value);
  if (name === shared) url.pathname = url.pathname.replace(/\/?$/, "/v1/traces");
  return url;
}

function toProtocol(env: Env, warn: Warn): OtlpSettings["protocol"] | undefined {
  const { name, value } = find(env, both("PROTOCOL")) ?? { name: "", value: "http/protobuf" };
  if (value === "http/protobuf" || value === "http/json") return value;
  const found = value === "grpc" ? "grpc is not supported, " : "";
  warn(`${name}: ${found}expected http/protobuf or http/json. ${notExported}`);
  return undefined;
}

function toHeaders(env: Env, warn: Warn): Record<string, string> | undefined {
  const { name, value } = find(env, both("HEADERS")) ?? { name: "", value: "" };
  try {
    const pairs = toPairs(value).map(([header, text]) => {
      validateHeaderName(header);
      validateHeaderValue(header, text);
      return [header.toLowerCase(), text];
    });
    return Object.fromEntries(pairs) as Record<string, string>;
  } catch {
    warn(`${name}: expected headers as name=value, separated by commas. ${notExported}`);
    return undefined;
  }
}

function isCompressed(env: Env, warn: Warn): boolean {
  const { name, value } = find(env, both("COMPRESSION")) ?? { name: "", value: "none" };
  if (value !== "gzip" && value !== "none") warn(`${name}: expected gzip or none. Spans are not compressed`);
  return value === "gzip";
}

function toResource(env: Env, warn: Warn): Attributes {
  const name = "OTEL_RESOURCE_ATTRIBUTES";
  let given: Attributes = {};
  try {
    given = Object.fromEntries(toPairs(find(env, [name])?.value ?? ""));
  } catch {
    warn(`${name}: expected attributes as name=value, separated by commas. They are ignored`);
  }
  const service = find(env, ["OTEL_SERVICE_NAME"])?.value ?? given["service.name"] ?? "agentserve";
  return {
    "service.instance.id": randomUUID(),
    "telemetry.sdk.name": "agentserve",
    "telemetry.sdk.language": "nodejs",
    "telemetry.sdk.version": manifest.version,
    ...given,
    "service.name": service,
  };
}

function readSampler(env: Env, warn: Warn): Sampler {
  const preset = "parentbased_always_on";
  const { name, value } = find(env, ["OTEL_TRACES_SAMPLER"]) ?? { name: "", value: preset };
  const sampler = toSampler(value, find(env, ["OTEL_TRACES_SAMPLER_ARG"])?.value ?? "");
  if (!sampler) warn(`${name}: unknown sampler, or OTEL_TRACES_SAMPLER_ARG is not from 0 to 1. ${preset} is used`);
  return sampler ?? toSampler(preset, "")!;
}

function readNumber(env: Env, names: readonly string[], preset: number, warn: Warn): number {
  const { name, value } = find(env, names) ?? { name: "", value: String(preset) };
  if (/^[1-9]\d{0,7}$/.test(value)) return Number(value);
  warn(`${name}: expected a whole number from 1 to 99999999. ${preset} is used`);
  return preset;
}

/** Parses `name=value,name=value`. A value may be percent-encoded. Throws if the text has another form. */
function toPairs(text: string): [name: string, value: string][] {
  const parts = text.split(",").filter((part) => part.trim() !== "");
  return parts.map((part) => {
    const at = part.indexOf("=");
    if (at < 1) throw new Error("expected name=value");
    return [part.slice(0, at).trim(), decodeURIComponent(part.slice(at + 1).trim())];
  });
}
