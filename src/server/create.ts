import type { Duplex } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import type { Config } from "../config/define.ts";
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
import { Assembly, defaultHost, type ServerParts } from "./assemble.ts";
import { limitLater, toHostResponse } from "./requests/host.ts";
import { answerMs, type ListeningServer, type ListenOptions } from "./network/listen.ts";
import { toListener } from "./network/listener.ts";
import { openStoreAndPort } from "./open.ts";
import type { Upgraded } from "../sockets/upgrade.ts";
import type { ListedRoute } from "./listing.ts";
import { findWeakSecret } from "./risks.ts";
import { createVersions, type Versions } from "./versions.ts";

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

type OpenListenOptions = Parameters<Server["listen"]>[0] & Pick<ListenOptions, "https">;

/** Opens the server of a project. `start` refuses a config with former limits. */
export function openServer(project: Project, parts: ServerParts): OpenServer {
  const { formerLimits } = project.config.server;
  if (parts.mode === "start" && formerLimits.length > 0) {
    const mistakes = formerLimits.map(explainFormerLimit);
    throw new ConfigError(mistakes.map(({ message }) => message).join("\n"), { hint: mistakes[0]?.hint });
  }
  return new OpenServer(project, parts);
}

/** A server, with access to its config, log and routes. Public methods are bound: a host may take `fetch` off its server. */
export class OpenServer implements Server {
  readonly runtime: SystemRuntime;
  readonly logger: Logger;
  /** The sessions of the console. Undefined where no link signs in. */
  readonly sessions: ConsoleSessions | undefined;
  /** Sets the problem on the landing page: the reason why a version cannot be served. Undefined clears it. */
  readonly complain: (problem: Problem | undefined) => void;
  readonly #assembly: Assembly;
  readonly #parts: ServerParts;
  readonly #server: Project["config"]["server"];
  readonly #versions: Versions;
  #opening: Promise<void> | undefined;
  #recovering: Promise<void> | undefined;
  #listening: Promise<ListeningServer> | undefined;
  #noticed: Promise<void> | undefined;
  #closing: Promise<void> | undefined;

  constructor(project: Project, parts: ServerParts) {
    this.#parts = parts;
    this.#server = project.config.server;
    this.#assembly = new Assembly(project, parts, { open: () => this.#openOrRefuse(), current: () => this.snapshot });
    const { runtime, logger, sessions, complain } = this.#assembly;
    this.runtime = runtime;
    this.logger = logger;
    this.sessions = sessions;
    this.complain = complain;
    this.#versions = createVersions(this.#assembly.toApp(project), { logger, heldMs: parts.heldMs });
  }

  /** The version of the config that is served now. */
  get snapshot(): Snapshot {
    return this.#versions.current().snapshot;
  }

  readonly ready = async (): Promise<void> => {
    if (this.#closing) throw shuttingDown();
    await this.#recover();
  };

  readonly routes = (): ListedRoute[] => this.#versions.current().routes();

  /**
   * Serves another version of the config from now on. Requests and executions in progress keep the version that they
   * started with. Backend, limits and port do not change. Throws, and changes nothing, if the version cannot be served.
   */
  readonly swap = (next: Project): void => {
    this.#versions.swap(this.#assembly.toApp(next));
    this.#assembly.scheduler.update(this.snapshot.schedules.values());
  };

  readonly fetch = async (request: Request): Promise<Response> => {
    if (this.#closing) return toErrorEnvelope(shuttingDown(), [requestIdHeader()], this.#assembly.report).toResponse();
    const app = this.#versions.current();
    const releaseSnapshot = app.snapshot.hold("request");
    const releases = [releaseSnapshot];
    const release = (): void => releases.forEach((one) => one());
    await this.#recover().catch((error: unknown) => {
      release();
      throw error;
    });
    const limited = limitLater(request, this.#server.limits.bodyBytes);
    const answer = await app.answer({
      request: limited,
      withBodyLimit: (bytes) => (request.body?.locked ? limited : limitLater(request, bytes)),
      onEnded: (one) => releases.push(one),
      release: releaseSnapshot,
    });
    return toHostResponse(answer, request.method, release);
  };

  readonly listen = (asked: OpenListenOptions = {}): Promise<ListeningServer> => {
    const { port = this.#server.port, host = this.#host, https } = asked;
    if (this.#listening) throw new Error("This server is already listening");
    if (this.#closing) throw new Error("This server is closed");
    if (!isLoopback(host)) this.sessions?.close();
    const { mode } = this.#parts;
    const { engine, report, metrics, store } = this.#assembly;
    const options: ListenOptions = {
      mode,
      host,
      port: port ?? defaultPort,
      mayMove: mode === "dev" && port === undefined,
      https,
      limits: this.#server.limits,
      listener: toListener(this.#versions.current, report),
      report,
      countedSocket: (change) => void (metrics.counters.totals.sockets += change),
      warn: (message, data) => this.logger.warn(message, data),
      resolve: (request, socket, requestId) => this.#upgrade(request, socket, requestId),
    };
    const open = (how: OpenOptions): Promise<void> => this.#open(how);
    this.#listening = openStoreAndPort({ options, open, store, isEarly: mode === "start" }).then((opened) => {
      const { basePath = "" } = this.#server;
      return { ...opened, url: opened.url + basePath };
    });
    // Executions continue after the port is open: a step that ends the process must not keep it closed.
    this.#listening.then(
      ({ url }) => void (engine.served(url), setImmediate(() => this.#recoverOrReport())),
      () => {},
    );
    return this.#listening;
  };

  /**
   * With `noticeMs`, serves for that time as before, while `/ready` is 503, for a load balancer to notice. `drainMs` is the
   * time for work in flight. @default limits.drainMs
   */
  readonly close = (asked: { noticeMs?: number; drainMs?: number } = {}): Promise<void> => {
    const { noticeMs = 0, drainMs = this.#server.limits.drainMs } = asked;
    this.#assembly.draining.isDraining = true;
    if (noticeMs === 0) return (this.#closing ??= this.#close(drainMs));
    return (this.#noticed ??= sleep(noticeMs).then(() => (this.#closing ??= this.#close(drainMs))));
  };

  get #host(): string {
    return this.#parts.host ?? this.#server.host ?? defaultHost;
  }

  #open(options?: OpenOptions): Promise<void> {
    const { traces, engine } = this.#assembly;
    return (this.#opening ??= traces.ready
      .then(() => engine.open(options))
      .catch((error: unknown) => {
        this.#opening = this.#recovering = undefined; // the next call tries again: the store may be free by then
        throw error;
      }));
  }

  /** Continues the executions that were running when the last process ended. */
  #recover(): Promise<void> {
    if (this.#recovering) return this.#recovering;
    const { engine, scheduler, agents } = this.#assembly;
    const { recovery, clock } = this.#parts;
    this.#recovering = this.#open().then(() =>
      engine.recover(recovery === false ? undefined : (id) => this.#programOf(id)).finally(() => {
        if (this.#closing) return;
        scheduler.open(this.snapshot.schedules.values());
        agents.watch.open();
      }),
    );
    clock?.hold?.(this.#recovering);
    return this.#recovering;
  }

  /** A server that cannot recover still serves: its executions can be read and cancelled. */
  #recoverOrReport(): void {
    if (this.#closing) return;
    this.#recover().catch((error: unknown) => this.logger.error("Executions could not be recovered", { error }));
  }

  /** Opens the store for code. A server that does not listen, and so has no other start, continues its executions too. */
  async #openOrRefuse(): Promise<void> {
    if (this.#closing) throw shuttingDown();
    await (this.#listening ? this.#open() : this.#recover());
  }

  #programOf(id: string): Program | undefined {
    const { workflows, agents } = this.snapshot;
    const agentId = agentOf(id);
    return agentId === undefined ? workflows.get(id) : agents.get(agentId)?.program;
  }

  async #upgrade(request: Request, socket: Duplex, requestId: string): Promise<Upgraded> {
    const app = this.#versions.current();
    const release = app.snapshot.hold("socket");
    socket.once("close", release);
    const { isBuiltIn, ...upgraded } = await app.upgrade(request, requestId);
    if (isBuiltIn) release(); // a built-in socket belongs to the server and uses no version of the config
    return upgraded;
  }

  async #close(drainMs: number): Promise<void> {
    const { engine, agents, scheduler, streams, metrics, traces } = this.#assembly;
    streams.close();
    scheduler.close();
    const until = performance.now() + drainMs;
    const grace = { drainMs: Math.max(drainMs / 2, drainMs - answerMs) };
    const beside = agents.close(grace);
    const closed = Promise.all([
      engine.close({ ...grace, beside }),
      this.#opening?.catch(() => {}),
      this.#recovering?.catch(() => {}),
    ]);
    const answered = Promise.all([closed, beside]);
    await Promise.all([
      answered,
      this.#listening?.then(
        (port) => port.close({ drainMs, answered }),
        () => {},
      ),
    ]);
    // A caller of `fetch` that never reads the response would hold its version for ever.
    const rest = Math.max(answerMs, until - performance.now());
    await within(rest, this.#versions.close(), { onLate: () => {} });
    await traces.flush(Math.min(flushMs, Math.max(drainMs, answerMs)));
    metrics.close();
  }
}

/** The time to export the last spans, within another `drainMs`. */
const flushMs = 3_000;
