import { createPlaceFinder } from "../config/find-place.ts";
import type { Project } from "../config/load.ts";
import type { Clock } from "../core/clock.ts";
import type { Logger } from "../core/log.ts";
import { toHost, toPlain, toTerminal, type LogOutput } from "../observability/log-output.ts";
import { createLogs, type Logs } from "../observability/logs.ts";

export interface ServerLogOptions {
  readonly mode: "dev" | "start";
  /** Gets every log record, in place of the config's logger and the terminal. */
  readonly logger?: Logger | undefined;
  /** True to print JSON lines to the terminal. */
  readonly json?: boolean | undefined;
  /** True to print whole stacks in `dev`. */
  readonly debug?: boolean | undefined;
  /** Replaces the log, so that a benchmark can measure its cost. */
  readonly logs?: Logs | undefined;
  /** @default the clock of the machine */
  readonly clock?: Clock | undefined;
}

/** The log of a server. Its output is the logger of the served config, or else the terminal. */
export class ServerLog {
  readonly logs: Logs;
  readonly #own: Logger | undefined;
  readonly #terminal: LogOutput;
  readonly #onDropped: (count: number) => void;
  #output: LogOutput;

  constructor(project: Project, options: ServerLogOptions, onDropped: (count: number) => void) {
    const { mode, json, debug, clock } = options;
    const isDev = mode === "dev";
    this.#own = options.logger;
    this.#onDropped = onDropped;
    this.#terminal = toTerminal({
      json,
      debug,
      findPlace: isDev ? createPlaceFinder(project.root) : undefined,
      onDropped,
    });
    this.#output = this.#toOutput(project);
    this.logs =
      options.logs ??
      createLogs({
        ...project.config.server.limits,
        clock,
        output: (...entry) => this.#output(...entry),
        onDropped,
        activityLevel: isDev ? "info" : "debug",
        takesDebug: () => this.#output !== this.#terminal,
      });
  }

  /** Writes to the logger of another config version. */
  follow(project: Project): void {
    this.#output = this.#toOutput(project);
  }

  #toOutput({ config }: Project): LogOutput {
    if (this.#own) return toPlain(this.#own);
    return config.logger ? toHost(config.logger, this.#onDropped) : this.#terminal;
  }
}
