import { connect } from "node:net";
import { afterAll, beforeAll, describe, onTestFinished } from "vitest";
import WebSocket, { type ClientOptions } from "ws";
import type { Config } from "../../src/config/define.ts";
import { toProject } from "../../src/config/load.ts";
import type { Snapshot } from "../../src/config/snapshot.ts";
import type { Logger, LogLevel } from "../../src/core/log.ts";
import type { Backend } from "../../src/engine/contract/backend.ts";
import type { Conversations } from "../../src/engine/contract/conversations.ts";
import { openServer } from "../../src/server/create.ts";
import type { BuiltInRoute } from "../../src/server/built-in-routes.ts";
import { chosenBackend, type TestBackend } from "./backends.ts";
import { createClient, type Client, type Send } from "./client.ts";
import { createRoundRobin } from "./round-robin.ts";

export const targets = ["in process", "dev", "start"] as const;
export type Target = (typeof targets)[number];

export interface TestServer extends Client {
  readonly snapshot: Snapshot;
  readonly target: Target;
  /** The address of the server. Nothing listens there in process. */
  readonly url: string;
  /** The stored conversations. No route shows them. */
  readonly conversations: Conversations;
  /** Every record that the server has logged, except those about requests and executions. */
  readonly logs: LogRecord[];
  /** The records about requests and executions. */
  readonly activity: LogRecord[];
  /** Sends a request without checking its answer. */
  readonly send: Send;
  /** Sends bytes over a socket of their own; resolves when the server has answered or closed. */
  raw(text: string): Promise<string>;
  socket(path: string, options?: SocketOptions): Promise<TestSocket>;
  close(): Promise<void>;
}
export interface LogRecord {
  level: LogLevel;
  message: string;
  data: Record<string, unknown> | undefined;
}
export interface Options {
  config?: Config;
  /** @default The one that `TEST_BACKEND` names. */
  backend?: TestBackend;
  rows?: readonly BuiltInRoute[];
  only?: readonly Target[];
}

/** Runs a suite against one server in process, one behind listhen (`dev`) and one behind node:http (`start`). */
export function describeServer(title: string, options: Options, suite: (server: TestServer) => void): void {
  for (const target of options.only ?? targets) {
    describe(`${title} (${target})`, () => {
      let running: TestServer | undefined;
      beforeAll(async () => {
        running = await startServer(target, options);
      });
      afterAll(() => running?.close());
      // The server exists only once the tests run; the suite is written before.
      const server = new Proxy({} as TestServer, {
        get: (_, key) => (key === "target" ? target : running![key as keyof TestServer]),
      });
      suite(server);
    });
  }
}

/** Runs a suite against one server in process: for logic that is the same behind every listener. */
export function describeInProcess(title: string, config: Config, suite: (server: TestServer) => void): void {
  describeServer(title, { config, only: ["in process"] }, suite);
}

export async function startServer(target: Target, options: Options = {}): Promise<TestServer> {
  const { config = {}, rows = [], backend = chosenBackend } = options;
  const logs: LogRecord[] = [];
  const activity: LogRecord[] = [];
  const mode = target === "dev" ? "dev" : "start";
  const parts = { mode, extraRoutes: rows, logger: createTestLogger(logs, activity) } as const;
  const replicas = await backend.createReplicas?.();
  const backends = replicas?.backends ?? [backend.create()];
  let conversations: Conversations | undefined;
  const watch = (one: Backend): Backend => ({
    ...one,
    open(given) {
      const opened = one.open(given);
      conversations = opened.conversations;
      return opened;
    },
  });
  const servers = backends.map((one) => {
    return openServer(toProject({ ...config, backend: watch(config.backend ?? one) }), parts);
  });
  const [server] = servers as [(typeof servers)[number]];
  const urls: string[] = [];
  if (target !== "in process") for (const one of servers) urls.push((await one.listen({ port: 0 })).url);
  // Each answers when it is registered.
  if (replicas) for (const one of servers) await one.fetch(new Request("http://localhost/doc"));
  const proxy = urls.length > 1 ? await createRoundRobin(urls) : undefined;
  const base = proxy?.url ?? urls[0] ?? "http://localhost";
  let turn = 0;
  const send: Send = (path, init) => {
    if (target !== "in process") return fetch(base + path, { redirect: "manual", ...init });
    return servers[turn++ % servers.length]!.fetch(new Request(base + path, init));
  };
  const doc = await (await send("/doc", {})).json();
  return {
    ...createClient(send, doc as never),
    snapshot: server.snapshot,
    conversations: conversations!, // opened with the server
    target,
    url: base,
    logs,
    activity,
    send,
    // To a server itself: a proxy would answer for it what it cannot parse.
    raw: (text) => sendRaw(urls[0] ?? base, text),
    socket: (path, wsOptions) => openSocket(base.replace("http", "ws") + path, wsOptions),
    async close() {
      for (const one of servers) await one.close();
      if (backend === chosenBackend) await backend.discard?.(backends[0]!);
      replicas?.close();
      await proxy?.close();
    },
  };
}

/** Starts a server until the test is over, or closes it. */
export async function startTestServer(target: Target, options?: Options): Promise<TestServer> {
  const server = await startServer(target, options);
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => (closing ??= server.close());
  onTestFinished(close);
  return { ...server, close };
}

/** Whether a message is that of a record about a request or an execution. */
const isActivity = (message: string): boolean =>
  /^(Request completed|Execution (suspended|completed|failed|cancelled))$/.test(message);

export function createTestLogger(logs: LogRecord[], activity: LogRecord[] = []): Logger {
  const levels: LogLevel[] = ["trace", "debug", "info", "warn", "error", "fatal"];
  const entries = levels.map((level) => [
    level,
    (message: string, data?: Record<string, unknown>) =>
      void (isActivity(message) ? activity : logs).push({ level, message, data }),
  ]);
  return Object.fromEntries(entries) as Logger;
}

function sendRaw(base: string, text: string): Promise<string> {
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket = connect(Number(new URL(base).port), "127.0.0.1", () => socket.write(text));
  let got = "";
  socket.setEncoding("latin1").on("data", (chunk) => {
    got += chunk;
    if (isWhole(got, text.startsWith("HEAD "))) socket.destroy();
  });
  socket.on("close", () => resolve(Buffer.from(got, "latin1").toString()));
  socket.on("error", () => resolve(got));
  return promise;
}

/** Returns true for a whole answer. One that ends with its connection is never whole. */
function isWhole(got: string, toHead: boolean): boolean {
  const [head = "", ...rest] = got.replace(/^HTTP\/1\.1 100 Continue\r\n\r\n/, "").split("\r\n\r\n");
  const body = rest.join("\r\n\r\n");
  if (rest.length === 0) return false;
  if (toHead || /^HTTP\/1\.1 (101|204|304)/.test(head)) return true;
  const [, length] = /^content-length: (\d+)/im.exec(head) ?? [];
  return length === undefined ? body.endsWith("0\r\n\r\n") : body.length >= Number(length);
}

export interface SocketOptions extends ClientOptions {
  protocols?: string[];
}
export interface TestSocket {
  /** Resolves to the next message. */
  next(): Promise<any>;
  send(text: string): void;
  close(): void;
  /** Resolves to the close code. */
  readonly closed: Promise<number>;
  readonly ws: WebSocket;
}

/** Rejects with the status and the body when the upgrade is refused. */
export async function openSocket(url: string, { protocols = [], ...options }: SocketOptions = {}): Promise<TestSocket> {
  const ws = new WebSocket(url, protocols, options);
  const messages: string[] = [];
  let wake = (): void => {};
  ws.on("message", (data) => {
    messages.push(String(data));
    wake();
  });
  const closed = new Promise<number>((resolve) => ws.on("close", resolve));
  const opened = Promise.withResolvers<void>();
  ws.on("open", () => opened.resolve());
  ws.on("error", (error) => opened.reject(error));
  ws.on("unexpected-response", async (_, response) => {
    let body = "";
    for await (const chunk of response) body += chunk;
    opened.reject(
      Object.assign(new Error(`refused with ${response.statusCode}`), { status: response.statusCode, body }),
    );
  });
  await opened.promise;
  return {
    async next() {
      while (messages.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return JSON.parse(messages.shift()!);
    },
    send: (text) => ws.send(text),
    close: () => ws.close(),
    closed,
    ws,
  };
}
