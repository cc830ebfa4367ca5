import { Agents } from "../agents/agents.ts";
import { embedded } from "../backends/embedded/define.ts";
import { CodeFrames } from "../config/code-frames.ts";
import { createPlaceFinder } from "../config/find-place.ts";
import { isConsoleOn } from "../console/options.ts";
import { consoleEntries, isConsoleApi, isConsoleRoute } from "../console/routes.ts";
import { ConsoleSessions } from "../console/sessions.ts";
import type { Project } from "../config/load.ts";
import { createSnapshot, type Snapshot, type SnapshotParts } from "../config/snapshot.ts";
import { ByteBudget } from "../core/byte-budget.ts";
import type { Clock } from "../core/clock.ts";
import { ServeError } from "../core/error.ts";
import { withIds, type Logger } from "../core/log.ts";
import { isLoopback } from "../core/loopback.ts";
import type { Engine } from "../engine/contract/engine.ts";
import { createExecutionLog } from "../engine/execution-log.ts";
import type { SystemRuntime } from "../engine/runtime.ts";
import { createStreams, type Streams } from "../http/sse.ts";
import { createTable } from "../http/table.ts";
import { toHost, toPlain, toTerminal, type LogOutput } from "../observability/log-output.ts";
import { createLogs, type Logs } from "../observability/logs.ts";
import { createMetrics, type ServerMetrics } from "../observability/metrics/metrics.ts";
import { createTraces, type Traces } from "../observability/tracer.ts";
import type { Problem } from "../pages/problem.ts";
import { Scheduler } from "../schedules/scheduler.ts";
import { startExecution, toTickId } from "../schedules/start.ts";
import { createApp, type App, type Mode, type RequestReport } from "./app.ts";
import { createBuiltInRoutes, type BuiltInRoute } from "./built-in-routes.ts";
import { createCustomApp } from "./custom.ts";
import { healthEntries, healthRoutes, type Readiness } from "./health.ts";
import { createKeyWarnings } from "./requests/key-warnings.ts";
import { listCustomRoutes, type ListedRoute } from "./listing.ts";
import { createReplacedNotice } from "./replaced-notice.ts";
import { actingFor, createRuntime, type RuntimeParts } from "./runtime.ts";
import type { StoreGate } from "./store-gate.ts";
import { createToolTargets } from "./tool-targets.ts";

export interface ServerParts {
  readonly mode: Mode;
  /** Gets every log record, in place of the logger of the config and of the terminal. */
  readonly logger?: Logger;
  /** True to print JSON lines to the terminal. */
  readonly json?: boolean | undefined;
  /** True to print whole stacks in `dev`. */
  readonly debug?: boolean | undefined;
  /** Replaces the log, so that a benchmark can measure its cost. */
  readonly logs?: Logs;
  /** Replaces the tracer, so that a benchmark can measure its cost. */
  readonly traces?: Traces;
  /** The address that the server is going to listen on. @default the host of the config, or else 127.0.0.1 */
  readonly host?: string | undefined;
  /** The file of the embedded store. Overrides the config. */
  readonly file?: string | undefined;
  /** False to leave the executions that were running when the last process ended as they are. @default true */
  readonly recovery?: boolean | undefined;
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
  readonly extraRoutes?: readonly BuiltInRoute[];
  /** Time after which a warning is logged about an older config that is still in use. @default 300000, 5 minutes */
  readonly heldMs?: number;
}

/** The parts of a server that all versions of its config share. */
export interface Assembly {
  readonly engine: Engine;
  readonly agents: Agents;
  readonly scheduler: Scheduler;
  /** Acts for the server itself. */
  readonly runtime: SystemRuntime;
  readonly streams: Streams;
  readonly metrics: ServerMetrics;
  readonly traces: Traces;
  readonly logger: Logger;
  readonly store: StoreGate;
  /** The sessions of the console. Undefined where no link signs in: in `start`, and on an address that others can reach. */
  readonly sessions: ConsoleSessions | undefined;
  readonly draining: { isDraining: boolean };
  /** Creates the app of a version. */
  toApp(next: Project): App;
  complain(problem: Problem | undefined): void;
  /** Logs an error of a connection. */
  report(error: unknown): void;
}

/** What the parts of a server need to know of it. */
export interface Serving {
  /** Opens the store, if it is not open yet. */
  open(): Promise<void>;
  /** The version of the config that is served now. */
  current(): Snapshot;
}

/**
 * Creates the parts of a server, and a function from a version of the config to its app. Opens no file or port. Without
 * `serving` the routes are only listed.
 */
export function assemble(project: Project, parts: ServerParts, serving: Serving | undefined): Assembly {
  const { mode, logger: own, json, debug, extraRoutes, file, clock } = parts;
  const { config, root } = project;
  const { limits } = config.server;
  const metrics = createMetrics();
  const { counters } = metrics;
  const onDropped = (count: number): void => void (counters.totals.droppedLogs += count);
  const findPlace = mode === "dev" ? createPlaceFinder(root) : undefined;
  const frames = mode === "dev" ? new CodeFrames(root) : undefined;
  const terminal = toTerminal({ json, debug, findPlace, onDropped });
  const toLogOutput = ({ config: { logger: theirs } }: Project): LogOutput => {
    if (own) return toPlain(own);
    return theirs ? toHost(theirs, onDropped) : terminal;
  };
  let output = toLogOutput(project);
  const logs =
    parts.logs ??
    createLogs({
      ...limits,
      clock,
      output: (...entry) => output(...entry),
      onDropped,
      activityLevel: mode === "dev" ? "info" : "debug",
      takesDebug: () => output !== terminal,
    });
  const traces = parts.traces ?? createTraces({ logger: logs.logger, totals: counters.totals });
  const { logger, activity } = logs;
  const { tracer } = traces;
  const report = (error: unknown): void => logger.error("Connection failed", { error });
  const { engine, conversations, schedules, usage } = config.backend.open({
    ...limits,
    root,
    file,
    logger,
    metrics: counters,
    clock,
    onSettled: createExecutionLog(activity),
  });
  const current = (): Snapshot => serving!.current();
  const budget = new ByteBudget(limits.inFlightBytes);
  const agents = new Agents({
    engine,
    conversations,
    usage,
    budget,
    limits,
    logger,
    tracer,
    metrics: counters,
    clock,
    root,
    createRuntime: (call, signal, within) =>
      createRuntime(runtimeParts, { actor: actingFor(call), snapshot: current, signal, within, turn: call }),
    targets: createToolTargets({ engine, snapshot: current, showErrors: mode === "dev" }),
    keepModelCalls: isConsoleOn(config.console, mode),
    showDetail: mode === "dev",
  });
  const ready = serving ? () => serving.open() : () => Promise.reject(new ServeError(503, "The server is not started"));
  const runtimeParts: RuntimeParts = { engine, agents, ready, stepValueBytes: limits.stepValueBytes };
  const runtime = createRuntime(runtimeParts, { actor: "system", snapshot: current });
  const scheduler = new Scheduler({
    engine,
    store: schedules,
    logger,
    catchesUp: mode === "start",
    async start(id, at) {
      const snapshot = current();
      const schedule = snapshot.schedules.get(id);
      const release = snapshot.hold("request");
      try {
        if (schedule) await startExecution(engine, snapshot, schedule, { executionId: toTickId(id, at), at });
      } finally {
        release();
      }
    },
  });
  let problem: Problem | undefined;
  const isDev = mode === "dev";
  const draining = { isDraining: false };
  const store: StoreGate = { opening: undefined };
  const readiness: Readiness = {
    isDraining: () => draining.isDraining,
    isRecovered: () => engine.isRecovered(),
    isWritable: () => engine.isWritable(),
  };
  const { host = config.server.host ?? defaultHost } = parts;
  const sessions = isDev && isLoopback(host) ? new ConsoleSessions() : undefined;
  const listings = new WeakMap<object, () => ListedRoute[]>();
  const console = { sessions, routes: (version: { readonly config: object }) => listings.get(version.config)!() };
  const builtIn = createBuiltInRoutes(
    {
      engine,
      schedules,
      usage,
      agents,
      logs,
      traces,
      limits,
      isDev,
      findFrame: frames?.find,
      problem: () => problem,
      console,
    },
    [
      ...healthRoutes(readiness),
      metrics.route({ load: (ids) => engine.load(ids), streams: () => streams.size }),
      ...(extraRoutes ?? []),
    ],
  );
  const reportRequest: RequestReport = (error, requestId) =>
    withIds(logger, { requestId }).error("Request failed", { error });
  const sayReplaced = createReplacedNotice(logger);
  const streams = createStreams({ ...limits, report });
  const unknownKey = createKeyWarnings(logger);

  function toApp(next: Project): App {
    // The limits of the first version apply throughout: backend, streams and port are opened once, with these limits.
    const version = { ...next, config: { ...next.config, server: { ...next.config.server, limits } } };
    const { configureApp, server } = version.config;
    const isOn = isConsoleOn(version.config.console, mode);
    const isServed = (route: BuiltInRoute): boolean =>
      (server.health !== false || !healthEntries.includes(toEntry(route))) && (isOn || !isConsoleRoute(route));
    const table = builtIn.routes.every(isServed) ? builtIn : createTable(builtIn.routes.filter(isServed));
    const { custom, table: served } = createCustomApp({
      configureApp,
      tools: { runtime, mode },
      basePath: server.basePath,
      table,
      report: reportRequest,
    });
    const replaced = new Set(builtIn.routes.filter((route) => !served.routes.includes(route)).map(toEntry));
    if (serving) sayReplaced(table.routes.filter((route) => !served.routes.includes(route)).map(toEntry));
    const known = new Set(builtIn.routes.map(toEntry));
    const open = [...healthEntries, ...consoleEntries].filter((entry) => known.has(entry) && !replaced.has(entry));
    const devOnly = new Set(builtIn.routes.filter(next.config.console ? isConsoleApi : isConsoleRoute));
    const customRoutes = listCustomRoutes(custom);
    const shared: SnapshotParts = {
      logger,
      tracer,
      metrics: counters,
      ask: agents.ask,
      onFailure: frames?.add,
      runTurn: (agent, caller) => agents.runner.runTurn(agent, caller),
      createRuntime: (actor, theirs) => createRuntime(runtimeParts, { actor, snapshot: () => theirs }),
    };
    const snapshot = createSnapshot(version, { ...shared, open, replaced, customRoutes });
    counters.register({ workflows: snapshot.workflows.keys(), agents: snapshot.agents.keys() });
    const app = createApp({
      snapshot,
      table: served,
      custom,
      report: reportRequest,
      streams,
      mode,
      logger,
      activity,
      tracer,
      counters,
      budget,
      clock,
      unknownKey,
      store,
      hasConsole: served.routes.some(isConsoleRoute),
      sessions,
      devOnly,
      runtimeFor: (actor) => createRuntime(runtimeParts, { actor, snapshot: () => snapshot }),
    });
    listings.set(snapshot.config, () => app.routes());
    output = toLogOutput(next);
    return app;
  }
  function complain(next: Problem | undefined): void {
    problem = next;
  }
  return {
    engine,
    agents,
    scheduler,
    runtime,
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
  };
}

/** Returns the routes of a config in `dev`, which has all of them. The configured backend is not opened. */
export function toRoutes(project: Project): ListedRoute[] {
  const config = { ...project.config, backend: embedded({ path: ":memory:" }) };
  const { toApp } = assemble({ ...project, config }, { mode: "dev", host: defaultHost }, undefined);
  return toApp(project).routes();
}

export const defaultHost = "127.0.0.1";

const toEntry = ({ method, path }: BuiltInRoute): string => `${method} ${path}`;
