import { embedded } from "../backends/embedded/define.ts";
import type { Config } from "../config/define.ts";
import { toProject } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import { createLogs } from "../observability/logs.ts";
import type { LogRecord } from "../observability/record.ts";
import { openServer, type Server } from "../server/create.ts";

export interface TestServerOptions {
  /**
   * The time of executions, retry delays, time limits, retention, rate limits and the log: `createClock()`. Needs the
   * embedded backend. @default the clock of the machine
   */
  clock?: Clock;
}

/** A server made by `createServer()` of `agentserve/testing`. */
export interface TestServer extends Server {
  /** The records that the server has logged, oldest first: the last 10,000, and at most 16 MiB. */
  logs(): LogRecord[];
}

/**
 * Creates a server for tests. It behaves like `createServer()` of `agentserve`, with two differences: it is in memory unless
 * the config has a backend, and it logs nothing to the terminal or the config's logger.
 */
export function createServer(config: Config, { clock }: TestServerOptions = {}): TestServer {
  const project = toProject({ ...config, backend: config.backend ?? embedded({ path: ":memory:" }) });
  const { backend, server } = project.config;
  if (clock && backend.type !== "embedded")
    throw new TypeError(`createServer(config, { clock }): expected an embedded backend, found ${backend.type}`);
  const logs = createLogs({ ...server.limits, clock, output: () => {} });
  const { fetch, listen, ready, close, runtime } = openServer(project, { mode: "start", clock, logs });
  return {
    fetch,
    runtime,
    listen,
    ready,
    close: () => close(),
    logs: () => logs.ring.newest(() => true, Infinity).map(({ text }) => JSON.parse(text) as LogRecord), // as `toEntry` wrote it
  };
}
