import type { H3 } from "h3";
import * as v from "valibot";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import { isModelName, modelNameRule, type Prices } from "../agents/usage/prices.ts";
import { findProviderMistakes } from "../auth/options.ts";
import type { AuthProvider } from "../auth/provider.ts";
import type { ConsoleOptions } from "../console/options.ts";
import { embedded } from "../backends/embedded/define.ts";
import type { Authorize } from "../core/access/authorize.ts";
import { explain } from "../core/schemas/explain.ts";
import type { Logger } from "../core/log.ts";
import type { Backend } from "../engine/contract/backend.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import type { Runtime, SystemRuntime } from "../engine/runtime.ts";
import { basePathRule, isBasePath } from "../http/path.ts";
import { isProxy, proxyRule } from "../http/client-address.ts";
import type { CorsOptions } from "../http/cors.ts";
import { toWindowMs, type RateLimitOptions } from "../http/rate-limit.ts";
import type { HostLogger } from "../observability/log-output.ts";
import { isSchedule, type ScheduleDefinition } from "../schedules/define.ts";
import { isWorkflow } from "../workflows/define.ts";
import { ConfigError } from "./error.ts";
import { findKey } from "./frame.ts";
import {
  constants,
  constantsKey,
  defaultLimits,
  findFormerLimits,
  type Bounds,
  type Constants,
  type Limits,
} from "./limits.ts";

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
  /** Max requests of one caller in a window of time. @default no limit */
  rateLimit?: RateLimitOptions;
  /**
   * The proxies whose `X-Forwarded-For`, `-Proto`, `-Host` and `-Prefix` are trusted: addresses, networks such as
   * `"10.0.0.0/8"`, or `"loopback"`. @default []
   */
  trustedProxies?: string[];
  /**
   * Declares that a proxy authenticates each request, and that nothing can bypass it. `start --strict` then serves
   * without `auth`. @default false
   */
  authenticatedByProxy?: boolean;
  /** Serves `GET /health` and `GET /ready`. A route of `configureApp` replaces the one of the same path. @default true */
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

/** Validates a config. Each message names the key, the expected and the actual value, and its place in `file`. */
export function parseConfig(config: unknown, origin: string, file?: string): ResolvedConfig {
  const parsed = v.safeParse(ConfigSchema, config);
  const mistakes = parsed.issues?.map((issue) => explain(ConfigSchema, issue)) ?? [];
  if (parsed.success && parsed.output.auth !== undefined)
    mistakes.push(...findProviderMistakes(parsed.output.auth, "auth"));
  if (parsed.success && parsed.output.authorize && parsed.output.auth === undefined)
    mistakes.push(`authorize: ${noProvider}`);
  if (parsed.success && mistakes.length === 0) {
    const { server } = parsed.output;
    const own = (config as { readonly [constantsKey]?: Partial<Constants> })[constantsKey];
    const limits = { ...server.limits, ...constants, ...own };
    return { ...parsed.output, server: { ...server, limits, formerLimits: findFormerLimits(server.limits) } };
  }
  const [path = ""] = mistakes[0]!.split(": ");
  const place = file === undefined ? undefined : findKey(file, path.split("."));
  throw new ConfigError(mistakes.map((mistake) => `${origin}: ${mistake}`).join("\n"), { place });
}

/** The mistake of a config, a workflow or an agent with `authorize` in a project without a provider. */
export const noProvider = "needs an authentication provider: set auth, for example auth: jwtAuth({ secret })";

// The message of each schema names the expected value. `explain` adds the path and the actual value.
const text = (what: string) => v.pipe(v.string(what), v.nonEmpty(what));
const texts = (what: string) => v.array(v.string(what), what);
const wholeNumber = (min: number, max: number, what: string) =>
  v.pipe(v.number(what), v.integer(what), v.minValue(min, what), v.maxValue(max, what));
const fn = <F>(what: string) => v.custom<F>((value) => typeof value === "function", what);

/** A strict object schema that refuses an array, which valibot would accept as an object. */
const object = <E extends v.ObjectEntries>(entries: E, what: string) => {
  const known = v.strictObject(entries, what);
  // A `never` schema has no output, so the type of the object schema applies to both branches.
  return v.lazy((value) => (Array.isArray(value) ? (v.never(what) as unknown as typeof known) : known));
};

const originRule = "an origin such as http://localhost:5173, an array of origins, or a function";
const isOrigin = (value: unknown): boolean =>
  value === "*" ||
  value === "null" ||
  // `URL` has no origin for `capacitor://localhost` or `chrome-extension://…`.
  (typeof value === "string" &&
    (URL.parse(value)?.origin === value || /^(?!https?:)[a-z][a-z\d+.-]*:\/\/[^/\s]+$/.test(value)));

const Cors = v.pipe(
  object(
    {
      origin: v.optional(
        v.custom<NonNullable<CorsOptions["origin"]>>(
          (value) => typeof value === "function" || [value].flat().every(isOrigin),
          originRule,
        ),
      ),
      allowHeaders: v.optional(texts("an array of header names")),
      allowMethods: v.optional(texts("an array of methods")),
      exposeHeaders: v.optional(texts("an array of header names")),
      maxAge: v.optional(wholeNumber(0, 31_536_000, "a number of seconds")),
      credentials: v.optional(v.boolean("true or false")),
    },
    "false or an object",
  ),
  v.forward(
    v.check(
      ({ credentials, origin = "*" }) => !credentials || typeof origin === "function" || ![origin].flat().includes("*"),
      'false, or named origins in cors.origin (browsers reject credentials with "*")',
    ),
    ["credentials"],
  ),
);

const isLogger = (value: unknown): boolean =>
  ["info", "warn", "error"].every((level) => typeof (value as Record<string, unknown> | null)?.[level] === "function");
const isBackend = (value: unknown): boolean => typeof (value as Backend | undefined)?.open === "function";

/** The limits that 0 turns off, or makes automatic. */
const mayBeZero = new Set(["stepTimeoutMs", "storeBytes", "storeFreeBytes", "inFlightBytes", "drainNoticeMs"]);
const limitEntries = Object.entries(defaultLimits).map(([name, value]) => {
  const max = name.endsWith("Ms") ? 2_147_483_647 : Number.MAX_SAFE_INTEGER; // the longest delay of a timer
  const least = mayBeZero.has(name) ? 0 : 1;
  return [name, v.optional(wholeNumber(least, max, `a whole number from ${least} to ${max}`), value)];
});
// `fromEntries` loses the key names. They are exactly those of the defaults.
const limits = Object.fromEntries(limitEntries) as {
  [K in keyof Limits]: v.OptionalSchema<v.GenericSchema<number>, number>;
};

const toFormerEntries = (value: unknown): object =>
  Object.fromEntries(findFormerLimits(value).map((name) => [name, v.unknown()]));

const windowRule = 'a number of milliseconds or a duration such as "30s" or "1m"';
const RateLimit = object(
  {
    limit: wholeNumber(1, Number.MAX_SAFE_INTEGER / 10, "a whole number from 1"),
    window: v.custom<number | string>((value) => toWindowMs(value) !== undefined, windowRule),
    key: v.optional(fn<NonNullable<RateLimitOptions["key"]>>("a function")),
  },
  'an object such as { limit: 100, window: "1m" }',
);

const Server = object(
  {
    port: v.optional(wholeNumber(0, 65_535, "a port number from 0 to 65535")),
    host: v.optional(text("a host name or address")),
    basePath: v.optional(v.custom<string>(isBasePath, basePathRule)),
    https: v.optional(v.boolean("true or false")),
    allowedHosts: v.optional(texts("an array of host names"), []),
    cors: v.optional(v.lazy((value) => (value === false ? v.literal(false) : Cors))),
    rateLimit: v.optional(RateLimit),
    trustedProxies: v.optional(v.array(v.custom<string>(isProxy, proxyRule), "an array of addresses and networks"), []),
    authenticatedByProxy: v.optional(v.boolean("true or false")),
    health: v.optional(v.boolean("true or false")),
    limits: v.optional(
      // A former limit has no effect, whatever its value.
      v.lazy((value) => object({ ...limits, ...toFormerEntries(value) }, "an object")),
      {},
    ),
  },
  "an object",
);

const Console = object({ readOnly: v.optional(v.boolean("true or false")) }, "true, false or an object");

const priceRule = "a number from 0";
const price = v.pipe(v.number(priceRule), v.finite(priceRule), v.minValue(0, priceRule));
const pricesRule = "an object of prices by model";
const priceRecord = v.record(
  v.custom<string>(isModelName, modelNameRule),
  object({ input: price, output: price, cachedInput: v.optional(price) }, "an object such as { input: 1, output: 10 }"),
  pricesRule,
);
const PricesSchema = v.lazy((value) =>
  // As in `object`.
  Array.isArray(value) ? (v.never(pricesRule) as unknown as typeof priceRecord) : priceRecord,
);

const ConfigSchema = object(
  {
    agents: v.optional(
      v.array(v.custom<AgentDefinition>(isAgent, "an agent created by defineAgent()"), "an array of agents"),
      [],
    ),
    agentsDir: v.optional(text("a folder path")),
    workflows: v.optional(
      v.array(
        v.custom<WorkflowDefinition>(isWorkflow, "a workflow created by defineWorkflow()"),
        "an array of workflows",
      ),
      [],
    ),
    workflowsDir: v.optional(text("a folder path")),
    schedules: v.optional(
      v.array(
        v.custom<ScheduleDefinition>(isSchedule, "a schedule created by defineSchedule()"),
        "an array of schedules",
      ),
      [],
    ),
    schedulesDir: v.optional(text("a folder path")),
    server: v.optional(Server, {}),
    auth: v.optional(v.custom<AuthProvider>(() => true)), // findProviderMistakes() checks it and does not print secrets
    authorize: v.optional(fn<Authorize>("a function")),
    console: v.optional(v.lazy((value) => (typeof value === "boolean" ? v.boolean() : Console))),
    prices: v.optional(PricesSchema),
    logger: v.optional(v.custom<HostLogger>(isLogger, "a logger with info(), warn() and error()")),
    backend: v.optional(v.custom<Backend>(isBackend, "a backend such as embedded()"), () => embedded()),
    configureApp: v.optional(fn<NonNullable<Config["configureApp"]>>("a function that takes the app")),
    onDispose: v.optional(fn<NonNullable<Config["onDispose"]>>("a function")),
  },
  "an object created by defineConfig()",
);
