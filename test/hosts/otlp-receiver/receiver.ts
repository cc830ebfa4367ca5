import { createServer, type IncomingMessage } from "node:http";
import { once } from "node:events";
import { createRequire } from "node:module";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { buffer } from "node:stream/consumers";
import { gunzipSync } from "node:zlib";
import { installHost } from "../install-host.ts";

/** A span as the receiver has read it. */
export interface ReceivedSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId: string | undefined;
  readonly name: string;
  readonly kind: number;
  readonly start: bigint;
  readonly end: bigint;
  readonly attributes: Record<string, unknown>;
  readonly links: readonly { traceId: string; spanId: string }[];
  readonly status: { readonly code: number; readonly message?: string };
}
interface ReceivedRequest {
  readonly headers: IncomingMessage["headers"];
  readonly resource: Record<string, unknown>;
  readonly spans: readonly ReceivedSpan[];
}
export interface Receiver {
  readonly url: string;
  readonly requests: ReceivedRequest[];
  /** The reasons why requests were refused. */
  readonly refusals: string[];
  readonly spans: () => ReceivedSpan[];
  close(): Promise<unknown>;
}

/** Starts a receiver of OTLP/HTTP. It refuses what OpenTelemetry's own decoder does not know. */
export async function startReceiver(): Promise<Receiver> {
  const load = createRequire(join(installHost("otlp-receiver"), "package.json"));
  const { opentelemetry } = load("@opentelemetry/otlp-transformer/build/src/generated/root.js");
  const Request = opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest;
  const toPlain = { longs: String, bytes: String, json: true };

  function fromProtobuf(body: Buffer): any {
    const message = Request.decode(body);
    if (!Buffer.from(Request.encode(message).finish()).equals(body)) throw new Error("it has unknown fields");
    return check(message);
  }
  /** The ids of OTLP/JSON are hex, and those of Protobuf's own JSON are base64. */
  function fromJson(body: Buffer): any {
    const text = body.toString();
    if (!Buffer.from(text).equals(body)) throw new Error("it is not UTF-8");
    const toBase64 = (value: string): string => Buffer.from(value, "hex").toString("base64");
    const json = JSON.parse(text, (key, value) => (isId(key) ? toBase64(value) : value));
    return check(Request.fromObject(json));
  }
  function check(message: unknown): any {
    const mistake = Request.verify(message);
    if (mistake) throw new Error(mistake);
    return Request.toObject(message, toPlain);
  }

  const requests: ReceivedRequest[] = [];
  const refusals: string[] = [];
  const server = createServer(async (req, res) => {
    try {
      const sent = await buffer(req);
      const body = req.headers["content-encoding"] === "gzip" ? gunzipSync(sent) : sent;
      const type = req.headers["content-type"] ?? "";
      const decode = { "application/x-protobuf": fromProtobuf, "application/json": fromJson }[type];
      if (req.method !== "POST" || req.url !== "/v1/traces" || !decode)
        throw new Error(`${req.method} ${req.url} ${type}`);
      for (const one of decode(body).resourceSpans) {
        const spans = one.scopeSpans.flatMap((scoped: any) => scoped.spans).map(toSpan);
        requests.push({ headers: req.headers, resource: toAttributes(one.resource.attributes), spans });
      }
      res.setHeader("content-type", type).end(type === "application/json" ? "{}" : "");
    } catch (error) {
      refusals.push(String(error));
      res.writeHead(400).end();
    }
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    refusals,
    spans: () => requests.flatMap(({ spans }) => spans),
    close() {
      server.closeAllConnections();
      return new Promise((resolve) => server.close(resolve));
    },
  };
}

const isId = (key: string): boolean => key === "traceId" || key === "spanId" || key === "parentSpanId";
const toHex = (base64: string): string => Buffer.from(base64, "base64").toString("hex");

function toSpan(span: any): ReceivedSpan {
  const { name, status } = span;
  const kinds = ["", "SPAN_KIND_INTERNAL", "SPAN_KIND_SERVER", "SPAN_KIND_CLIENT"];
  const kind = typeof span.kind === "string" ? kinds.indexOf(span.kind) : span.kind;
  const code = { STATUS_CODE_OK: 1, STATUS_CODE_ERROR: 2 }[status?.code as string] ?? status?.code ?? 0;
  const [start, end] = [BigInt(span.startTimeUnixNano), BigInt(span.endTimeUnixNano)];
  const traceId = toHex(span.traceId);
  const spanId = toHex(span.spanId);
  if (!/^[\da-f]{32}$/.test(traceId) || !/^[\da-f]{16}$/.test(spanId)) throw new Error(`bad ids ${traceId} ${spanId}`);
  if (end < start) throw new Error(`${name} ends before it starts`);
  return {
    traceId,
    spanId,
    parentSpanId: span.parentSpanId ? toHex(span.parentSpanId) : undefined,
    name,
    kind,
    start,
    end,
    attributes: toAttributes(span.attributes ?? []),
    links: (span.links ?? []).map((link: any) => ({ traceId: toHex(link.traceId), spanId: toHex(link.spanId) })),
    status: { code, ...(status?.message && { message: status.message }) },
  };
}

const toAttributes = (pairs: readonly any[]): Record<string, unknown> =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, toValue(value)]));

function toValue(value: any): unknown {
  if ("intValue" in value) return Number(value.intValue);
  if ("arrayValue" in value) return (value.arrayValue.values ?? []).map(toValue);
  return value.stringValue ?? value.boolValue ?? value.doubleValue;
}
