import { limitRequestBody } from "srvx/body-limit";
import type { Config } from "../config/define.ts";
import { toProject, type Project } from "../config/load.ts";
import { createSnapshot } from "../config/snapshot.ts";
import type { Logger } from "../core/log.ts";
import { Envelope, toWebResponse, type Answer } from "../http/envelope.ts";
import { createStreams } from "../http/sse.ts";
import { createLogger } from "../observability/logger.ts";
import { createApp, type App, type Mode } from "./app.ts";
import { listen as openPort, type Listening } from "./listen.ts";
import { toListener } from "./listener.ts";
import { createRows, type Row } from "./rows.ts";

export interface Server {
  /** The whole server as a web-standard handler, for embedding and tests. */
  fetch(request: Request): Promise<Response>;
  /** Opens the port of the config. */
  listen(options?: { port?: number; host?: string }): Promise<Listening>;
  /** Ends streams and sockets, lets requests finish within `limits.drainMs`, then disposes of the config. */
  close(): Promise<void>;
}

export interface ServerParts {
  readonly mode: Mode;
  readonly logger?: Logger;
  /** Rows beside the built-in ones. */
  readonly rows?: readonly Row[];
}

/** A server of your own config, without files and without the command line. */
export function createServer(config: Config): Server {
  return openServer(toProject(config), { mode: "start" });
}

export const defaultPort = 3141;

export function openServer(project: Project, { mode, logger = createLogger(), rows }: ServerParts): Server {
  const { server } = project.config;
  const report = (error: unknown): void => logger.error("Connection failed", { error });
  const streams = createStreams({ ...server.limits, report });
  const table = createRows(rows);
  const unknownKey = createKeyWarnings(logger);
  const app: App = createApp({ snapshot: createSnapshot(project, logger), table, streams, mode, logger, unknownKey });
  let listening: Listening | undefined;

  return {
    async fetch(request) {
      const release = app.snapshot.hold();
      const limited = limitRequestBody(request, server.limits.bodyBytes);
      return toResponse(await app.answer(limited), request.method, release);
    },
    async listen({ port = server.port, host = server.host ?? "127.0.0.1" } = {}) {
      listening = await openPort({
        mode,
        host,
        port: port ?? defaultPort,
        mayMove: mode === "dev" && port === undefined,
        limits: server.limits,
        listener: toListener(() => app),
        report,
        resolve(request, socket) {
          socket.once("close", app.snapshot.hold());
          return app.upgrade(request);
        },
      });
      return listening;
    },
    async close() {
      streams.close();
      await listening?.close();
      await app.snapshot.retire();
    },
  };
}

/** What a Node host does by itself: a HEAD has no body, and the snapshot is held until the response is over. */
async function toResponse(answer: Answer, method: string, release: () => void): Promise<Response> {
  const response = toWebResponse(answer);
  if (method === "HEAD") await response.body?.cancel();
  if (method === "HEAD" || answer instanceof Envelope || !response.body) {
    release();
    return method === "HEAD" ? new Response(null, response) : response;
  }
  // TypeScript's Transformer does not know `cancel` yet.
  const end = new TransformStream({ flush: release, cancel: release } as Transformer);
  return new Response(response.body.pipeThrough(end), response);
}

/** One warning per unknown key, for the first hundred of them: a client chooses the keys. */
function createKeyWarnings(logger: Logger): (route: string, key: string) => void {
  const warned = new Set<string>();
  return (route, key) => {
    const name = `${route} ${key}`;
    if (warned.size >= 100 || warned.has(name)) return;
    warned.add(name);
    logger.warn("Unknown key in a request body was ignored", { route, key });
  };
}
