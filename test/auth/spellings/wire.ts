import { METHODS } from "node:http";
import { connect, type Socket } from "node:net";
import type { Spelling } from "./make.ts";
import { patienceMs } from "../../harness/patience.ts";

export interface Reply {
  /** 0 when the connection was closed without an answer. */
  readonly status: number;
  readonly head: string;
  readonly text: string;
}
/** Asks one request after another, each with more headers. Undefined: it cannot even be written in this way. */
export interface Way {
  ask(spelling: Spelling, more: readonly string[]): Promise<Reply | undefined>;
  close(): void;
}

export function toBytes({ method, target, version, host, headers, body }: Spelling, more: readonly string[]): string {
  const lines = [`${method} ${target} HTTP/${version}`, ...(host === undefined ? [] : [`Host: ${host}`])];
  lines.push(...headers, ...more);
  if (body) lines.push("Content-Type: application/json", `Content-Length: ${Buffer.byteLength(body)}`);
  return `${lines.join("\r\n")}\r\n\r\n${body}`;
}

/** Raw bytes, over a connection that is kept as long as the server keeps it. */
export function createLane(port: number): Way {
  let socket: Socket | undefined;
  function ask(spelling: Spelling, more: readonly string[]): Promise<Reply> {
    const { promise, resolve, reject } = Promise.withResolvers<Reply>();
    const bytes = toBytes(spelling, more);
    const line = (socket ??= connect(port, "127.0.0.1").setEncoding("latin1").setNoDelay());
    let got = "";
    const timer = setTimeout(() => reject(new Error(`no answer to ${JSON.stringify(bytes)}: ${got}`)), patienceMs);
    const onData = (chunk: string): void => {
      got += chunk;
      const reply = toReply(got, spelling.method === "HEAD", false);
      if (reply) end(reply);
    };
    const onClose = (): void => end(toReply(got, false, true) ?? { status: 0, head: "", text: "" });
    function end(reply: Reply): void {
      clearTimeout(timer);
      line.off("data", onData).off("close", onClose).off("error", ignore);
      // Node is silent about what it cannot parse, if the request before asked for another protocol and did not get it.
      const isLast = !/^connection: keep-alive/im.test(reply.head) || /^upgrade:/im.test(bytes);
      if (line.destroyed || isLast) {
        line.on("error", ignore).destroy();
        socket = undefined;
      }
      resolve(reply);
    }
    line.on("data", onData).on("close", onClose).on("error", ignore).write(bytes);
    return promise;
  }
  return { ask, close: () => socket?.destroy() };
}
const ignore = (): void => {};

/** The answer, once these bytes are a whole one. */
function toReply(got: string, toHead: boolean, isOver: boolean): Reply | undefined {
  const rest = got.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, "");
  const at = rest.indexOf("\r\n\r\n");
  if (at < 0) return undefined;
  const [head, body] = [rest.slice(0, at), rest.slice(at + 4)];
  const status = Number(/^HTTP\/1\.1 (\d{3}) /.exec(head)?.[1] ?? 0);
  const [, length] = /^content-length: (\d+)/im.exec(head) ?? [];
  const isChunked = /^transfer-encoding: chunked/im.test(head);
  const isBare = toHead || status === 101 || status === 204;
  const isWhole = isChunked ? body.endsWith("0\r\n\r\n") : length !== undefined && body.length >= Number(length);
  if (!isBare && !isWhole && !isOver) return undefined;
  return { status, head, text: Buffer.from(isChunked ? unchunk(body) : body, "latin1").toString() };
}

function unchunk(body: string): string {
  const at = body.indexOf("\r\n") + 2;
  const size = parseInt(body, 16);
  return size > 0 ? body.slice(at, at + size) + unchunk(body.slice(at + size + 2)) : "";
}

/** The same, by `fetch` of a server. */
export function createInside(fetch: (request: Request) => Promise<Response>): Way {
  return {
    async ask(spelling, more) {
      const request = toRequest(spelling, more);
      if (!request) return undefined;
      const response = await fetch(request);
      const head = [...response.headers].map((pair) => pair.join(": ")).join("\r\n");
      return { status: response.status, head, text: await response.text() };
    },
    close() {},
  };
}

function toRequest({ method, target, host, headers, body }: Spelling, more: readonly string[]): Request | undefined {
  // No socket carries it, and of such there is no end: nobody could name them all in `protect`.
  if (!METHODS.includes(method.toUpperCase())) return undefined;
  const lines = [...(host === undefined ? [] : [`Host: ${host}`]), ...headers, ...more];
  if (body) lines.push("Content-Type: application/json");
  const pairs = lines.map((line) => line.split(/:\s*(.*)/s, 2) as [string, string]);
  const url = /^[a-z]+:/i.test(target) ? target : `http://localhost${target}`;
  try {
    return new Request(url, { method, headers: pairs, ...(body && !/^(get|head)$/i.test(method) && { body }) });
  } catch {
    return undefined; // no URL, no method or no header
  }
}
