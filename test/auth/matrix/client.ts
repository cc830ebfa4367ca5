import { Agent, request as httpRequest, type IncomingMessage } from "node:http";
import type { Config } from "../../../src/config/define.ts";
import { toProject } from "../../../src/config/load.ts";
import { openServer } from "../../../src/server/create.ts";
import type { BuiltInRoute } from "../../../src/server/built-in-routes.ts";
import { chosenBackend } from "../../harness/backends.ts";
import { createTestLogger, type LogRecord, type Target } from "../../harness/server.ts";

export interface Wire {
  readonly method: string;
  readonly path: string;
  /** One line each, as they stand. */
  readonly headers: readonly (readonly [string, string])[];
  readonly body?: string | undefined;
}
export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}
export interface Running {
  readonly logs: LogRecord[];
  send(wire: Wire): Promise<Answer>;
  close(): Promise<void>;
}

/** Not the harness's `startServer`: that one reads `/doc` first, which opt-out mode does not let it. */
export async function start(target: Target, config: Config, rows: readonly BuiltInRoute[]): Promise<Running> {
  const logs: LogRecord[] = [];
  const project = toProject({ backend: chosenBackend.create(), ...config });
  const mode = target === "dev" ? "dev" : "start";
  const server = openServer(project, { mode, extraRoutes: rows, logger: createTestLogger(logs) });
  if (target === "in process") {
    const send = async (wire: Wire): Promise<Answer> => {
      const headers = new Headers();
      for (const [name, value] of wire.headers) headers.append(name, value);
      const { method, body = null } = wire;
      const response = await server.fetch(new Request(`http://localhost${wire.path}`, { method, headers, body }));
      return { status: response.status, headers: response.headers, text: await response.text() };
    };
    return { logs, send, close: () => server.close() };
  }
  const { url } = await server.listen({ port: 0 });
  const agent = new Agent({ keepAlive: true });
  return {
    logs,
    send: (wire) => sendOver(url, agent, wire),
    async close() {
      agent.destroy();
      await server.close();
    },
  };
}

function sendOver(base: string, agent: Agent, { method, path, headers, body = "" }: Wire): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const { hostname, port, host } = new URL(base);
  const isHandshake = headers.some(([name]) => name === "upgrade");
  // A list of lines is sent as it is: names that occur twice, too.
  const lines = [["host", host], ["content-length", String(body.length)], ...headers].flat();
  if (isHandshake) lines.splice(2, 2);
  const request = httpRequest({ hostname, port, method, path, agent: isHandshake ? false : agent, headers: lines });
  const answer = (response: IncomingMessage, text: string): void => {
    const got = new Headers();
    for (let i = 0; i < response.rawHeaders.length; i += 2) {
      got.append(response.rawHeaders[i]!, response.rawHeaders[i + 1]!);
    }
    resolve({ status: response.statusCode!, headers: got, text });
  };
  request.on("upgrade", (response, socket) => {
    socket.on("error", () => {}).destroy();
    answer(response, "");
  });
  request.on("response", (response) => {
    let text = "";
    response.setEncoding("utf8").on("data", (chunk: string) => (text += chunk));
    response.on("end", () => answer(response, text)).on("error", reject);
  });
  request.on("error", reject);
  request.end(body);
  return promise;
}
