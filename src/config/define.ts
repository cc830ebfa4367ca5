import type { H3 } from "h3";
import type { AgentDefinition } from "../agents/define.ts";
import type { Prices } from "../agents/usage/prices.ts";
import type { AuthProvider } from "../auth/provider.ts";
import type { ConsoleOptions } from "../console/options.ts";
import type { Authorize } from "../core/access/authorize.ts";
import type { Logger } from "../core/log.ts";
import type { Backend } from "../engine/contract/backend.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import type { Runtime, SystemRuntime } from "../engine/runtime.ts";
import type { CorsOptions } from "../http/cors.ts";
import type { RateLimitOptions } from "../http/rate-limit.ts";
import type { HostLogger } from "../observability/log-output.ts";
import type { ScheduleDefinition } from "../schedules/define.ts";
import type { Bounds, Constants, Limits } from "./limits.ts";

/** The default export of `agents.config.ts`. */
export interface Config {
  /** The agents to serve, in addition to those in `agentsDir`. @default [] */
  agents?: readonly AgentDefinition[];
  /** A folder of files. Every agent that they export is served. @default "agents", if it exists */
  agentsDir?: string;
  /** The workflows to serve, in addition to those in `workflowsDir`. @default [] */
  workflows?: readonly WorkflowDefinition[];
  /** A folder of files. Every workflow that they export is served. @default "workflows", if it exists */
  workflowsDir?: string;
  /** The schedules to follow, in addition to those in `schedulesDir`. @default [] */
  schedules?: readonly ScheduleDefinition[];
  /** A folder of files. Every schedule that they export is followed. @default "schedules", if it exists */
  schedulesDir?: string;
  /** The options of the HTTP server. @default {} */
  server?: ServerOptions;
  /** The authentication provider. @default none: anyone may call every route */
  auth?: AuthProvider | undefined;
  /**
   * Decides who may do what: call agents, start workflows, read and change executions, read logs and metrics. It replaces
   * `ownership`. Needs `auth`. A workflow or agent with an `authorize` in its definition uses that one.
   * @default none: `auth` and its `ownership` decide
   */
  authorize?: Authorize | undefined;
  /**
   * The console, a page at `/console` that shows and controls the server. In `start` it needs a token of `auth`.
   * @default true in `dev`, false in `start`
   */
  console?: boolean | ConsoleOptions;
  /**
   * The prices of models, for `cost` in `GET /agents/:id/usage`. The keys are names such as `"openai/gpt-5"`.
   * @default none: there is no `cost`
   */
  prices?: Prices;
  /** The logger to write to, such as pino, winston or consola. `/api/logs` works with any. @default the terminal */
  logger?: HostLogger;
  /** The store of executions and conversations. @default embedded() */
  backend?: Backend;
  /**
   * Adds custom routes, groups and middleware to an H3 app. Built-in routes take precedence, except `GET /health` and
   * `GET /ready`. `runtime` acts for the server itself; `event.context.runtime` of a route acts for its caller.
   */
  configureApp?: (app: CustomApp, tools: AppTools) => void;
  /** Called when this version of the config is no longer in use. */
  onDispose?: () => void | Promise<void>;
}
/** The H3 app of `configureApp`. A named interface, so that the type of a config can be written without h3. */
export interface CustomApp extends H3 {}
/** The second argument of `configureApp`. */
export interface AppTools {
  /** Starts workflows, asks agents and sends events, for no user or for the user that `as` names. */
  readonly runtime: SystemRuntime;
  /** The command that serves this config: `"dev"` under `agentserve dev`, else `"start"`, whatever `NODE_ENV` says. */
  readonly mode: "dev" | "start";
}
declare module "h3" {
  /** The context of a custom route: `event.context`. */
  interface H3EventContext {
    /** The user that the authentication provider returned for the token. */
    authenticatedUser?: Readonly<Record<string, unknown>> | undefined;
    /** The `x-request-id` of the response. */
    requestId?: string;
    /** A logger that adds the ids of the request and its user to every record. */
    logger?: Logger;
    /** Starts workflows, asks agents and sends events, for the caller of the request. */
    runtime: Runtime;
  }
}
/** The options of the HTTP server. */
export interface ServerOptions {
  /** The port to listen on. @default 3141, or the next free port in `dev` */
  port?: number;
  /** The host or address to listen on. @default "127.0.0.1" */
  host?: string;
  /**
   * The path under which all routes are served, such as `"/api/ai"`. The paths of `configureApp`, `publicRoutes` and
   * `protect` are written without it. @default none
   */
  basePath?: string;
  /** Serves https in `dev`, with a self-signed certificate. In production, use a reverse proxy. @default false */
  https?: boolean;
  /** Host names that `dev` accepts, in addition to localhost and IP addresses. @default [] */
  allowedHosts?: string[];
  /** The CORS options. `false` turns CORS handling off. @default every origin is allowed */
  cors?: CorsOptions | false;
  /** Max requests of one caller per window. @default no limit */
  rateLimit?: RateLimitOptions;
  /**
   * The proxies whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` are trusted: addresses, networks such as
   * `"10.0.0.0/8"`, or `"loopback"`. @default []
   */
  trustedProxies?: string[];
  /**
   * Declares that a proxy authenticates each request and cannot be bypassed. `start --strict` then serves without `auth`.
   * @default false
   */
  authenticatedByProxy?: boolean;
  /** Serves `GET /health` and `GET /ready`. A `configureApp` route replaces the one with the same path. @default true */
  health?: boolean;
  /** The limits of the server. @default the default of each limit */
  limits?: Partial<Limits>;
}

/** A config with its defaults filled in. */
export interface ResolvedConfig extends Omit<Config, "server"> {
  agents: AgentDefinition[];
  workflows: WorkflowDefinition[];
  schedules: ScheduleDefinition[];
  backend: Backend;
  server: Omit<ServerOptions, "limits" | "allowedHosts" | "trustedProxies"> & {
    allowedHosts: string[];
    trustedProxies: string[];
    limits: Bounds;
    /** The constants that `limits` of the config still sets. */
    formerLimits: readonly (keyof Constants)[];
  };
}

/** Types a config. Mistakes are reported with their file and place when the file is loaded. */
export function defineConfig<const C extends Config>(config: C & ExactConfig<C>): C {
  return config;
}
/** `never` for each unknown key of a config. TypeScript itself does not report unknown keys of a type parameter. */
export type ExactConfig<T, Known = Config> = {
  [K in keyof T]: K extends keyof Known
    ? K extends "server" | "limits" | "cors" | "rateLimit" | "console"
      ? ExactConfig<T[K], Exclude<Known[K], boolean | undefined>>
      : unknown
    : never;
};
