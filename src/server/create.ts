import { setTimeout as sleep } from "node:timers/promises";
import type { Config, ResolvedConfig } from "../config/define.ts";
import { ConfigError } from "../config/error.ts";
import { explainFormerLimit } from "../config/limits.ts";
import { toProject, type Project } from "../config/load.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { shuttingDown } from "../core/error.ts";
import type { ConsoleSessions } from "../console/sessions.ts";
import type { Logger } from "../core/log.ts";
import { isLoopback } from "../core/loopback.ts";
import { requestIdHeader } from "../http/request-id.ts";
import type { OpenOptions } from "../engine/contract/engine.ts";
import type { Program } from "../engine/contract/program.ts";
import { agentOf } from "../engine/turn-execution.ts";
import type { SystemRuntime } from "../engine/runtime.ts";
import { within } from "../core/clock.ts";
import { toErrorEnvelope } from "../http/envelope.ts";
import type { Problem } from "../pages/problem.ts";
import { assemble, defaultHost, type ServerParts } from "./assemble.ts";
import { limitLater } from "./requests/host-request.ts";
import { toHostResponse } from "./requests/host-response.ts";
import { answerMs, type ListeningServer, type ListenOptions } from "./network/listen.ts";
import { toListener } from "./network/listener.ts";
import { openStoreAndPort } from "./open.ts";
import type { ListedRoute } from "./listing.ts";
import { findWeakSecret } from "./risks.ts";
import { createVersions } from "./versions.ts";

/** A server made by `createServer()`. */
export interface Server {
  /** Answers a request, as a web-standard handler. For embedding and tests. */
  fetch(request: Request): Promise<Response>;
  /** Starts workflows, asks agents and sends events, for no user or for the user that `as` names. */
  readonly runtime: SystemRuntime;
  /**
   * Opens the store, continues executions and begins schedules, as `listen()` and the first `fetch()` do. For a program that
   * calls neither at its start.
   */
  ready(): Promise<void>;
  /** Listens on a port. @default the port and host of the config, or else port 3141 on 127.0.0.1 */
  listen(options?: { port?: number | undefined; host?: string | undefined }): Promise<ListeningServer>;
  /** Ends streams and sockets, lets requests finish within `limits.drainMs`, then disposes of the config. */
  close(): Promise<void>;
}

/** Creates a server from a config, without files and without the command line. */
export function createServer(config: Config): Server {
  const project = toProject(config);
  const server = openServer(project, { mode: "start" });
  const weak = findWeakSecret(project.config);
  if (weak) server.logger.warn(weak.message);
  return server;
}

export const defaultPort = 3141;

/** A server, with access to its current config, its log and its routes. */
export interface OpenServer extends Server {
  /** The version of the config that is served now. */
  readonly snapshot: Snapshot;
  readonly logger: Logger;
  /** The sessions of the console. Undefined where no link signs in. */
  readonly sessions: ConsoleSessions | undefined;
  routes(): ListedRoute[];
  listen(options?: Parameters<Server["listen"]>[0] & Pick<ListenOptions, "https">): Promise<ListeningServer>;
  /**
   * Serves another version of the config from now on. Requests and executions in progress keep the version that they
   * started with. Backend, limits and port do not change. Throws, and changes nothing, if the version cannot be served.
   */
  swap(project: Project): void;
  /**
   * With `noticeMs`, serves for that time as before, while `/ready` is 503, so that a load balancer can notice.
   * `drainMs` is the time for work in flight. @default limits.drainMs
   */
  close(options?: { noticeMs?: number; drainMs?: number }): Promise<void>;
  /** Sets the problem that the landing page shows about a version that cannot be served. Undefined clears it. */
  complain(problem: Problem | undefined): void;
}

export function openServer(project: Project, parts: ServerParts): OpenServer {
  const { mode, heldMs } = parts;
  const { server } = project.config;
  if (mode === "start") refuseFormerLimits(server.formerLimits);
  const assembled = assemble(project, parts, { open: openOrRefuse, current: () => current().snapshot });
  const {
    engine,
    agents,
    scheduler,
    streams,
    toApp,
    complain,
    report,
    logger,
    draining,
    metrics,
    store,
    traces,
    sessions,
  } = assembled;
  let opening: Promise<void> | undefined;
  const open = (options?: OpenOptions): Promise<void> =>
    (opening ??= traces.ready
      .then(() => engine.open(options))
      .catch((error: unknown) => {
        opening = recovering = undefined; // the next call tries again: the store may be free by then
        throw error;
      }));
  let recovering: Promise<void> | undefined;
  /** Continues the executions that were running when the last process ended. */
  const recover = (): Promise<void> => {
    if (recovering) return recovering;
    recovering = open().then(() =>
      engine.recover(parts.recovery === false ? undefined : programOf).finally(() => {
        if (closing) return;
        scheduler.open(current().snapshot.schedules.values());
        agents.watch.open();
      }),
    );
    parts.clock?.hold?.(recovering);
    return recovering;
  };
  /** A server that cannot recover still serves: its executions can be read and cancelled. */
  const recoverOrReport = (): void => {
    if (closing) return;
    recover().catch((error: unknown) => logger.error("Executions could not be recovered", { error }));
  };
  const programOf = (id: string): Program | undefined => {
    const { workflows, agents: served } = current().snapshot;
    const agentId = agentOf(id);
    return agentId === undefined ? workflows.get(id) : served.get(agentId)?.program;
  };
  let listening: Promise<ListeningServer> | undefined;
  let closing: Promise<void> | undefined;
  let noticed: Promise<void> | undefined;
  const versions = createVersions(toApp(project), { logger, heldMs });
  const { current } = versions;

  return {
    get snapshot() {
      return current().snapshot;
    },
    logger,
    sessions,
    runtime: assembled.runtime,
    complain,
    async ready() {
      if (closing) throw shuttingDown();
      await recover();
    },
    routes: () => current().routes(),
    swap(next) {
      versions.swap(toApp(next));
      scheduler.update(current().snapshot.schedules.values());
    },
    async fetch(request) {
      if (closing) return toErrorEnvelope(shuttingDown(), [requestIdHeader()], report).toResponse();
      const app = current();
      const releaseSnapshot = app.snapshot.hold("request");
      const releases = [releaseSnapshot];
      const release = (): void => releases.forEach((one) => one());
      await recover().catch((error: unknown) => {
        release();
        throw error;
      });
      const limited = limitLater(request, server.limits.bodyBytes);
      const answer = await app.answer({
        request: limited,
        withBodyLimit: (bytes) => (request.body?.locked ? limited : limitLater(request, bytes)),
        onEnded: (one) => releases.push(one),
        release: releaseSnapshot,
      });
      return toHostResponse(answer, request.method, release);
    },
    listen({ port = server.port, host = parts.host ?? server.host ?? defaultHost, https } = {}) {
      if (listening) throw new Error("This server is already listening");
      if (closing) throw new Error("This server is closed");
      if (!isLoopback(host)) sessions?.close();
      const options: ListenOptions = {
        mode,
        host,
        port: port ?? defaultPort,
        mayMove: mode === "dev" && port === undefined,
        https,
        limits: server.limits,
        listener: toListener(current, report),
        report,
        countedSocket: (change) => void (metrics.counters.totals.sockets += change),
        warn: (message, data) => logger.warn(message, data),
        async resolve(request, socket, requestId) {
          const app = current();
          const release = app.snapshot.hold("socket");
          socket.once("close", release);
          const { isBuiltIn, ...upgraded } = await app.upgrade(request, requestId);
          if (isBuiltIn) release(); // a built-in socket belongs to the server and uses no version of the config
          return upgraded;
        },
      };
      // Executions continue after the port is open: a step that ends the process must not keep it closed.
      listening = openStoreAndPort({ options, open, store, isEarly: mode === "start" }).then((opened) => {
        const { basePath = "" } = server;
        return { ...opened, url: opened.url + basePath };
      });
      listening.then(
        ({ url }) => void (engine.served(url), setImmediate(recoverOrReport)),
        () => {},
      );
      return listening;
    },
    close({ noticeMs = 0, drainMs = server.limits.drainMs } = {}) {
      draining.isDraining = true;
      if (noticeMs === 0) return (closing ??= close(drainMs));
      return (noticed ??= sleep(noticeMs).then(() => (closing ??= close(drainMs))));
    },
  };

  /** Opens the store for code. A server that does not listen, and so has no other start, continues its executions too. */
  async function openOrRefuse(): Promise<void> {
    if (closing) throw shuttingDown();
    await (listening ? open() : recover());
  }

  async function close(drainMs: number): Promise<void> {
    streams.close();
    scheduler.close();
    const until = performance.now() + drainMs;
    const grace = { drainMs: Math.max(drainMs / 2, drainMs - answerMs) };
    const beside = agents.close(grace);
    const closed = Promise.all([
      engine.close({ ...grace, beside }),
      opening?.catch(() => {}),
      recovering?.catch(() => {}),
    ]);
    const answered = Promise.all([closed, beside]);
    await Promise.all([
      answered,
      listening?.then(
        (port) => port.close({ drainMs, answered }),
        () => {},
      ),
    ]);
    // A caller of `fetch` that never reads the response would hold its version for ever.
    const rest = Math.max(answerMs, until - performance.now());
    await within(rest, versions.close(), { onLate: () => {} });
    await traces.flush(Math.min(flushMs, Math.max(drainMs, answerMs)));
    metrics.close();
  }
}

/** The time to export the last spans, within another `drainMs`. */
const flushMs = 3_000;

function refuseFormerLimits(names: ResolvedConfig["server"]["formerLimits"]): void {
  if (names.length === 0) return;
  const mistakes = names.map(explainFormerLimit);
  throw new ConfigError(mistakes.map(({ message }) => message).join("\n"), { hint: mistakes[0]?.hint });
}
