import { Agents } from "../agents/agents.ts";
import { embedded } from "../backends/embedded/define.ts";
import { CodeFrames } from "../config/code-frames.ts";
import { isConsoleOn } from "../console/options.ts";
import { consoleEntries, isConsoleApi, isConsoleRoute } from "../console/routes.ts";
import { ConsoleSessions } from "../console/sessions.ts";
import type { Project } from "../config/load.ts";
import { createSnapshot, type Snapshot, type SnapshotParts } from "../config/snapshot.ts";
import { ByteBudget } from "../core/byte-budget.ts";
import { ServeError } from "../core/error.ts";
import { withIds, type Logger } from "../core/log.ts";
import { isLoopback } from "../core/loopback.ts";
import type { Backend } from "../engine/contract/backend.ts";
import type { Engine } from "../engine/contract/engine.ts";
import { createExecutionLog } from "../engine/execution-log.ts";
import type { SystemRuntime } from "../engine/runtime.ts";
import { createStreams, type Streams } from "../http/sse.ts";
import { createTable, type Table } from "../http/table.ts";
import { createMetrics, type ServerMetrics } from "../observability/metrics/metrics.ts";
import { createTraces, type Traces } from "../observability/tracer.ts";
import type { Problem } from "../pages/problem.ts";
import { Scheduler } from "../schedules/scheduler.ts";
import { startTick } from "../schedules/start.ts";
import { App, type RequestReport, type SharedAppParts, type StoreGate } from "./app.ts";
import { createBuiltInRoutes, type BuiltInRoute } from "./built-in-routes.ts";
import { createCustomApp } from "./custom.ts";
import { healthEntries, healthRoutes, type Readiness } from "./health.ts";
import { listCustomRoutes, type ListedRoute } from "./listing.ts";
import { createKeyWarnings, createReplacedNotice } from "./notices.ts";
import { ServerLog, type ServerLogOptions } from "./server-log.ts";
import { actingFor } from "./runtime/acting-for.ts";
import { createRuntime, type RuntimeParts } from "./runtime/runtime.ts";
import { createToolTargets } from "./runtime/tool-targets.ts";

export interface ServerParts extends ServerLogOptions {
  /** Replaces the tracer, so that a benchmark can measure its cost. */
  readonly traces?: Traces;
  /** The address that the server is going to listen on. @default the host of the config, or else 127.0.0.1 */
  readonly host?: string | undefined;
  /** The file of the embedded store. Overrides the config. */
  readonly file?: string | undefined;
  /** False to leave the executions that were running when the last process ended as they are. @default true */
  readonly recovery?: boolean | undefined;
  readonly extraRoutes?: readonly BuiltInRoute[];
  /** Time after which an older config still in use is logged as a warning. @default 300000, 5 minutes */
  readonly heldMs?: number;
}

type OpenBackend = ReturnType<Backend["open"]>;

/** The server, as its parts see it. */
export interface Serving {
  /** Opens the store, if it is not open yet. */
  open(): Promise<void>;
  /** The version of the config that is served now. */
  current(): Snapshot;
}

/** The server parts that all config versions share. Opens no file and no port. */
export class Assembly {
  readonly engine: Engine;
  readonly agents: Agents;
  readonly scheduler: Scheduler;
  /** Acts for the server itself. */
  readonly runtime: SystemRuntime;
  readonly streams: Streams;
  readonly metrics: ServerMetrics = createMetrics();
  readonly traces: Traces;
  readonly logger: Logger;
  readonly store: StoreGate = { opening: undefined };
  /** The sessions of the console. Undefined where no link signs in: in `start`, and on an address that others can reach. */
  readonly sessions: ConsoleSessions | undefined;
  readonly draining = { isDraining: false };
  readonly #project: Project;
  readonly #parts: ServerParts;
  readonly #serving: Serving | undefined;
  readonly #log: ServerLog;
  readonly #frames: CodeFrames | undefined;
  readonly #budget: ByteBudget;
  readonly #builtIn: Table<BuiltInRoute>;
  readonly #sharedAppParts: SharedAppParts;
  readonly #runtimeParts: RuntimeParts;
  readonly #listings = new WeakMap<object, App>();
  readonly #logReplaced: (replaced: Iterable<string>) => void;
  #problem: Problem | undefined;

  /** Without `serving`, the routes are only listed. */
  constructor(project: Project, parts: ServerParts, serving: Serving | undefined) {
    const { mode, clock } = parts;
    const { config, root } = project;
    const { limits } = config.server;
    const isDev = mode === "dev";
    this.#project = project;
    this.#parts = parts;
    this.#serving = serving;
    this.#frames = isDev ? new CodeFrames(root) : undefined;
    const { totals } = this.metrics.counters;
    this.#log = new ServerLog(project, parts, (count) => void (totals.droppedLogs += count));
    const { logger, activity } = this.#log.logs;
    this.logger = logger;
    this.traces = parts.traces ?? createTraces({ logger, totals });
    this.#budget = new ByteBudget(limits.inFlightBytes);
    const opened = this.#openBackend();
    this.engine = opened.engine;
    this.agents = this.#createAgents(opened);
    this.#runtimeParts = {
      engine: this.engine,
      agents: this.agents,
      ready: () => serving?.open() ?? Promise.reject(new ServeError(503, "The server is not started")),
      stepValueBytes: limits.stepValueBytes,
    };
    this.runtime = createRuntime(this.#runtimeParts, { actor: "system", snapshot: this.#current });
    this.scheduler = new Scheduler({
      engine: this.engine,
      store: opened.schedules,
      logger,
      catchesUp: mode === "start",
      start: (id, at) => startTick(this.engine, this.#current(), { id, at }),
    });
    this.sessions =
      isDev && isLoopback(parts.host ?? config.server.host ?? defaultHost) ? new ConsoleSessions() : undefined;
    this.streams = createStreams({ ...limits, report: this.report });
    this.#builtIn = this.#createBuiltIn(opened);
    this.#logReplaced = createReplacedNotice(this.logger);
    this.#sharedAppParts = {
      mode,
      clock,
      logger,
      activity,
      tracer: this.traces.tracer,
      counters: this.metrics.counters,
      budget: this.#budget,
      streams: this.streams,
      sessions: this.sessions,
      store: this.store,
      unknownKey: createKeyWarnings(this.logger),
      report: this.#reportRequest,
    };
  }

  /** Logs an error of a connection. */
  readonly report = (error: unknown): void => this.logger.error("Connection failed", { error });

  readonly #reportRequest: RequestReport = (error, requestId) =>
    withIds(this.logger, { requestId }).error("Request failed", { error });

  readonly #current = (): Snapshot => {
    if (!this.#serving) throw new Error("An assembly without a server has no current version");
    return this.#serving.current();
  };

  readonly complain = (problem: Problem | undefined): void => {
    this.#problem = problem;
  };

  /** Creates the app of a version. */
  toApp(next: Project): App {
    // The limits of the first version apply throughout: backend, streams and port are opened once, with these limits.
    const { limits } = this.#project.config.server;
    const version = { ...next, config: { ...next.config, server: { ...next.config.server, limits } } };
    const { configureApp, server } = version.config;
    const { mode } = this.#parts;
    const table = this.#toTable(version);
    const { custom, table: served } = createCustomApp({
      configureApp,
      tools: { runtime: this.runtime, mode },
      basePath: server.basePath,
      table,
      report: this.#reportRequest,
    });
    const { routes } = this.#builtIn;
    const isMissing = (route: BuiltInRoute): boolean => !served.routes.includes(route);
    const replaced = new Set(routes.filter(isMissing).map(toEntry));
    if (this.#serving) this.#logReplaced(table.routes.filter(isMissing).map(toEntry));
    const known = new Set(routes.map(toEntry));
    const open = [...healthEntries, ...consoleEntries].filter((entry) => known.has(entry) && !replaced.has(entry));
    const snapshot = createSnapshot(version, {
      ...this.#snapshotParts,
      open,
      replaced,
      customRoutes: listCustomRoutes(custom),
    });
    this.metrics.counters.register({ workflows: snapshot.workflows.keys(), agents: snapshot.agents.keys() });
    const app = new App({
      ...this.#sharedAppParts,
      snapshot,
      table: served,
      custom,
      hasConsole: served.routes.some(isConsoleRoute),
      devOnly: new Set(routes.filter(next.config.console ? isConsoleApi : isConsoleRoute)),
      runtimeFor: (actor) => createRuntime(this.#runtimeParts, { actor, snapshot: () => snapshot }),
    });
    this.#listings.set(snapshot.config, app);
    this.#log.follow(next);
    return app;
  }

  get #snapshotParts(): SnapshotParts {
    const { agents } = this;
    return {
      logger: this.logger,
      tracer: this.traces.tracer,
      metrics: this.metrics.counters,
      ask: agents.ask,
      onFailure: this.#frames?.add,
      runTurn: (agent, caller) => agents.runner.runTurn(agent, caller),
      createRuntime: (actor, version) => createRuntime(this.#runtimeParts, { actor, snapshot: () => version }),
    };
  }

  /** Returns the built-in routes that a version has, before `configureApp` replaces some. */
  #toTable({ config }: Project): Table<BuiltInRoute> {
    const hasConsole = isConsoleOn(config.console, this.#parts.mode);
    const hasHealth = config.server.health !== false;
    const isServed = (route: BuiltInRoute): boolean =>
      (hasHealth || !healthEntries.includes(toEntry(route))) && (hasConsole || !isConsoleRoute(route));
    const { routes } = this.#builtIn;
    return routes.every(isServed) ? this.#builtIn : createTable(routes.filter(isServed));
  }

  #openBackend(): OpenBackend {
    const { config, root } = this.#project;
    const { file, clock } = this.#parts;
    return config.backend.open({
      ...config.server.limits,
      root,
      file,
      logger: this.logger,
      metrics: this.metrics.counters,
      clock,
      onSettled: createExecutionLog(this.#log.logs.activity),
    });
  }

  #createAgents({ engine, conversations, usage }: OpenBackend): Agents {
    const { config, root } = this.#project;
    const { mode, clock } = this.#parts;
    const snapshot = this.#current;
    return new Agents({
      engine,
      conversations,
      usage,
      budget: this.#budget,
      limits: config.server.limits,
      logger: this.logger,
      tracer: this.traces.tracer,
      metrics: this.metrics.counters,
      clock,
      root,
      createRuntime: (call, signal, within) =>
        createRuntime(this.#runtimeParts, { actor: actingFor(call), snapshot, signal, within, turn: call }),
      targets: createToolTargets({ engine, snapshot, showErrors: mode === "dev" }),
      keepModelCalls: isConsoleOn(config.console, mode),
      showDetail: mode === "dev",
    });
  }

  #createBuiltIn({ schedules, usage }: OpenBackend): Table<BuiltInRoute> {
    const { engine, agents, draining, metrics, traces, sessions, streams } = this;
    const readiness: Readiness = {
      isDraining: () => draining.isDraining,
      isRecovered: () => engine.isRecovered(),
      isWritable: () => engine.isWritable(),
    };
    return createBuiltInRoutes(
      {
        engine,
        schedules,
        usage,
        agents,
        logs: this.#log.logs,
        traces,
        limits: this.#project.config.server.limits,
        isDev: this.#parts.mode === "dev",
        findFrame: this.#frames?.find,
        problem: () => this.#problem,
        console: { sessions, routes: ({ config }) => this.#listings.get(config)?.routes() ?? [] },
      },
      [
        ...healthRoutes(readiness),
        metrics.route({ load: (ids) => engine.load(ids), streams: () => streams.size }),
        ...(this.#parts.extraRoutes ?? []),
      ],
    );
  }
}

/** Returns the routes of a config in `dev`, which has all of them. The configured backend is not opened. */
export function toRoutes(project: Project): ListedRoute[] {
  const config = { ...project.config, backend: embedded({ path: ":memory:" }) };
  return new Assembly({ ...project, config }, { mode: "dev", host: defaultHost }, undefined).toApp(project).routes();
}

export const defaultHost = "127.0.0.1";

const toEntry = ({ method, path }: BuiltInRoute): string => `${method} ${path}`;
