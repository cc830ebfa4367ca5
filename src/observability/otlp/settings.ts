import { validateHeaderName, validateHeaderValue } from "node:http";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  type Sampler,
} from "@opentelemetry/sdk-trace";
import type { Attributes } from "../../core/trace.ts";

/** The span export as the environment describes it. The exporter itself reads the headers and the compression. */
export interface OtlpSettings {
  readonly url: URL;
  readonly protocol: "http/protobuf" | "http/json";
  /** Max time of one export, with its retries. */
  readonly timeoutMs: number;
  /** The attributes of this process. */
  readonly resource: Attributes;
  readonly sampler: Sampler;
  /** Max waiting spans. Further ones are dropped. */
  readonly queueSpans: number;
  /** Max spans per request. */
  readonly batchSpans: number;
  /** Max time that a span waits for others. */
  readonly delayMs: number;
}

type Env = Readonly<Record<string, string | undefined>>;

/** Reads the variables of OpenTelemetry. Returns undefined, after a warning, if spans cannot be exported. */
export function readSettings(env: Env, warn: (message: string) => void): OtlpSettings | undefined {
  return new EnvReader(env, warn).read();
}

/** Checks each variable. A warning names the variable and never its value, which may have a secret. */
class EnvReader {
  readonly #env: Env;
  readonly #warn: (message: string) => void;

  constructor(env: Env, warn: (message: string) => void) {
    this.#env = env;
    this.#warn = warn;
  }

  read(): OtlpSettings | undefined {
    const url = this.#url();
    const protocol = this.#protocol();
    if (!url || !protocol || !this.#hasValidHeaders()) return undefined;
    this.#checkCompression();
    const queueSpans = this.#number(["OTEL_BSP_MAX_QUEUE_SIZE"], 16_384);
    return {
      url,
      protocol,
      timeoutMs: this.#number(both("TIMEOUT"), 10_000),
      resource: this.#resource(),
      sampler: this.#sampler(),
      queueSpans,
      batchSpans: Math.min(queueSpans, this.#number(["OTEL_BSP_MAX_EXPORT_BATCH_SIZE"], 512)),
      delayMs: this.#number(["OTEL_BSP_SCHEDULE_DELAY"], 5_000),
    };
  }

  /** Returns the first variable that is set. An empty one is not. */
  #find(...names: string[]): { name: string; value: string } | undefined {
    for (const name of names) {
      const value = this.#env[name]?.trim();
      if (value) return { name, value };
    }
    return undefined;
  }

  #url(): URL | undefined {
    const [own, shared] = both("ENDPOINT");
    const { name, value } = this.#find(own, shared) ?? { name: shared, value: "" };
    if (!/^https?:\/\//i.test(value) || !URL.canParse(value)) {
      this.#warn(`${name}: expected a URL that begins with http:// or https://. ${notExported}`);
      return undefined;
    }
    const url = new URL(value);
    if (name === shared) url.pathname = url.pathname.replace(/\/?$/, "/v1/traces");
    return url;
  }

  #protocol(): OtlpSettings["protocol"] | undefined {
    const { name, value } = this.#find(...both("PROTOCOL")) ?? { name: "", value: "http/protobuf" };
    if (value === "http/protobuf" || value === "http/json") return value;
    const found = value === "grpc" ? "grpc is not supported, " : "";
    this.#warn(`${name}: ${found}expected http/protobuf or http/json. ${notExported}`);
    return undefined;
  }

  #hasValidHeaders(): boolean {
    return both("HEADERS").every((variable) => {
      const { name, value } = this.#find(variable) ?? { name: variable, value: "" };
      try {
        for (const [header, text] of toPairs(value)) {
          validateHeaderName(header);
          validateHeaderValue(header, text);
        }
        return true;
      } catch {
        this.#warn(`${name}: expected headers as name=value, separated by commas. ${notExported}`);
        return false;
      }
    });
  }

  #checkCompression(): void {
    const { name, value } = this.#find(...both("COMPRESSION")) ?? { name: "", value: "none" };
    if (value !== "gzip" && value !== "none") this.#warn(`${name}: expected gzip or none. Spans are not compressed`);
  }

  #resource(): Attributes {
    const { name, value } = this.#find("OTEL_RESOURCE_ATTRIBUTES") ?? { name: "", value: "" };
    let given: Attributes = {};
    try {
      given = Object.fromEntries(toPairs(value));
    } catch {
      this.#warn(`${name}: expected attributes as name=value, separated by commas. They are ignored`);
    }
    const service = this.#find("OTEL_SERVICE_NAME")?.value ?? given["service.name"] ?? "agentserve";
    return { ...given, "service.name": service };
  }

  #sampler(): Sampler {
    const preset = "parentbased_always_on";
    const { name, value } = this.#find("OTEL_TRACES_SAMPLER") ?? { name: "", value: preset };
    const [, isParentBased, kind = ""] = /^(parentbased_)?(.*)$/.exec(value) ?? [];
    const ratio = Number(this.#find("OTEL_TRACES_SAMPLER_ARG")?.value ?? 1);
    const root = kind === "traceidratio" && !(ratio >= 0 && ratio <= 1) ? undefined : samplers[kind]?.(ratio);
    if (root) return isParentBased ? new ParentBasedSampler({ root }) : root;
    this.#warn(`${name}: unknown sampler, or OTEL_TRACES_SAMPLER_ARG is not from 0 to 1. ${preset} is used`);
    return new ParentBasedSampler({ root: new AlwaysOnSampler() });
  }

  #number(names: readonly string[], preset: number): number {
    const { name, value } = this.#find(...names) ?? { name: "", value: String(preset) };
    if (/^[1-9]\d{0,7}$/.test(value)) return Number(value);
    this.#warn(`${name}: expected a whole number from 1 to 99999999. ${preset} is used`);
    return preset;
  }
}

const notExported = "Spans are not exported";
/** The variable for traces, and the one for all signals. */
const both = (name: string) => [`OTEL_EXPORTER_OTLP_TRACES_${name}`, `OTEL_EXPORTER_OTLP_${name}`] as const;

const samplers: Readonly<Record<string, (ratio: number) => Sampler>> = {
  always_on: () => new AlwaysOnSampler(),
  always_off: () => new AlwaysOffSampler(),
  traceidratio: (ratio) => new TraceIdRatioBasedSampler(ratio),
};

/** Parses `name=value,name=value`. A value may be percent-encoded. Throws if the text has another form. */
function toPairs(text: string): [name: string, value: string][] {
  const pairs = text.split(",").filter((pair) => pair.trim() !== "");
  return pairs.map((pair) => {
    const at = pair.indexOf("=");
    if (at < 1) throw new Error("expected name=value");
    return [pair.slice(0, at).trim(), decodeURIComponent(pair.slice(at + 1).trim())];
  });
}
