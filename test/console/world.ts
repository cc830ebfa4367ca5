import { once } from "node:events";
import { request as httpRequest } from "node:http";
import { text as toText } from "node:stream/consumers";
import { onTestFinished } from "vitest";
import type { Config } from "../../src/config/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer, type OpenServer } from "../../src/server/create.ts";
import { chosenBackend } from "../harness/backends.ts";
import { createTestLogger, type LogRecord } from "../harness/server.ts";

interface Asked {
  readonly method?: string;
  /** Sent as they are, `host` and `origin` too. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly json?: unknown;
}
export interface Answered {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The JSON body, if it is one. */
  readonly body: any;
}
/** A server behind a port, with the tokens of its console. */
export interface ConsoleServer {
  readonly server: OpenServer;
  readonly url: string;
  readonly logs: LogRecord[];
  /** The path is sent as it is. */
  ask(path: string, asked?: Asked): Promise<Answered>;
  /** Returns the headers of a new session. */
  signIn(): Promise<{ authorization: string }>;
}
export interface ConsoleServerOptions {
  readonly mode?: "dev" | "start";
  readonly host?: string;
}

/** Starts a server, as `agentserve dev` does, until the test is over. */
export async function openConsole(config: Config = {}, options: ConsoleServerOptions = {}): Promise<ConsoleServer> {
  const { mode = "dev", host } = options;
  const logs: LogRecord[] = [];
  const project = toProject({ backend: chosenBackend.create(), ...config });
  const server = openServer(project, { mode, host, logger: createTestLogger(logs, logs) });
  onTestFinished(() => server.close());
  const { url, port } = await server.listen({ port: 0 });
  const ask = (path: string, asked?: Asked): Promise<Answered> => send({ port, host }, path, asked);
  return {
    server,
    url,
    logs,
    ask,
    async signIn() {
      const { body, status, text } = await ask("/console/api/session", { json: { token: server.sessions!.link } });
      if (status !== 200) throw new Error(`not signed in: ${status} ${text}`);
      return { authorization: `Bearer ${body.data.token}` };
    },
  };
}

async function send(
  { port, host = "127.0.0.1" }: { port: number; host?: string | undefined },
  path: string,
  { method, headers = {}, json }: Asked = {},
): Promise<Answered> {
  const body = json === undefined ? undefined : JSON.stringify(json);
  const asking = httpRequest({
    port,
    host: host === "0.0.0.0" ? "127.0.0.1" : host,
    path,
    method: method ?? (body === undefined ? "GET" : "POST"),
    headers: {
      ...(body && { "content-type": "application/json", "content-length": Buffer.byteLength(body) }),
      ...headers,
    },
  });
  asking.end(body);
  const [response] = await once(asking, "response");
  const text = await toText(response);
  const isJson = response.headers["content-type"] === "application/json" && text !== "";
  return {
    status: response.statusCode,
    headers: response.headers,
    text,
    body: isJson ? JSON.parse(text) : undefined,
  };
}

/** The names of the headers that let a page of another origin read an answer. */
export const corsHeadersOf = ({ headers }: Answered): string[] =>
  Object.keys(headers).filter((name) => name.startsWith("access-control-"));
