import type { H3 } from "h3";
import * as v from "valibot";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import { findProviderMistakes } from "../auth/options.ts";
import type { AuthProvider } from "../auth/provider.ts";
import { embedded } from "../backends/embedded/define.ts";
import { explain } from "../core/explain.ts";
import type { Logger } from "../core/log.ts";
import type { Backend } from "../engine/backend.ts";
import type { WorkflowDefinition } from "../engine/definition.ts";
import type { CorsOptions } from "../http/cors.ts";
import type { HostLogger } from "../observability/log-output.ts";
import { isWorkflow } from "../workflows/define.ts";
import { ConfigError } from "./error.ts";
import { findKey } from "./frame.ts";
import { defaultLimits, type Limits } from "./limits.ts";

/** What `agents.config.ts` exports as its default. */
export interface Config {
  /** Agents to serve, besides those that files in `agentsDir` export. */
  agents?: readonly AgentDefinition[];
  /** Every agent that a file in here exports is served too. @default "agents", if it exists */
  agentsDir?: string;
  /** Workflows to serve, besides those that files in `workflowsDir` export. */
  workflows?: readonly WorkflowDefinition[];
  /** Every workflow that a file in here exports is served too. @default "workflows", if it exists */
  workflowsDir?: string;
  server?: ServerOptions;
  /** Who may call what. @default everybody may call everything */
  auth?: AuthProvider | undefined;
  /** Where the log goes besides its readers: a pino, winston or consola of your own. @default the terminal */
  logger?: HostLogger;
  /** Where executions and conversations live. @default embedded() */
  backend?: Backend;
  /** Adds routes, groups and middleware of your own to an H3 app; they come after the built-in routes. */
  configureApp?: (app: CustomApp) => void;
  /** Called once nobody uses this version of the config any more. */
  onDispose?: () => void | Promise<void>;
}
/** The H3 app of `configureApp`. It has a name of its own, so that the type of a config can be written without h3. */
export interface CustomApp extends H3 {}
declare module "h3" {
  /** What a custom route finds in `event.context`. */
  interface H3EventContext {
    /** Whom the authentication provider found behind the request's token. */
    authenticatedUser?: Readonly<Record<string, unknown>> | undefined;
    /** The `x-request-id` of the answer. */
    requestId?: string;
    /** Stamps what it logs with the ids of the request and its user. */
    logger?: Logger;
  }
}
export interface ServerOptions {
  /** @default 3141, or the next free one in `dev` */
  port?: number;
  /** @default "127.0.0.1" */
  host?: string;
  /** In `dev`: with a certificate signed by itself. In production, what stands in front of it does that. @default false */
  https?: boolean;
  /** Names, besides localhost and IP addresses, under which `dev` may be asked. */
  allowedHosts?: string[];
  /** Who may call from a browser. @default every origin; false turns the handling off */
  cors?: CorsOptions | false;
  limits?: Partial<Limits>;
}

/** The config with its defaults filled in. */
export interface ResolvedConfig extends Omit<Config, "server"> {
  agents: AgentDefinition[];
  workflows: WorkflowDefinition[];
  backend: Backend;
  server: Omit<ServerOptions, "limits" | "allowedHosts"> & { allowedHosts: string[]; limits: Limits };
}

/** Gives `agents.config.ts` its types. Mistakes are reported when the file is loaded, with file and place. */
export function defineConfig<const C extends Config>(config: C & ExactConfig<C>): C {
  return config;
}
/** `never` for each key that a config does not have. The compiler reports no unknown keys of a type parameter by itself. */
export type ExactConfig<T, Known = Config> = {
  [K in keyof T]: K extends keyof Known
    ? K extends "server" | "limits" | "cors"
      ? ExactConfig<T[K], Exclude<Known[K], false | undefined>>
      : unknown
    : never;
};

/** Checks a config; the messages name the key, what was expected and what was found, and where in its `file` it stands. */
export function parseConfig(config: unknown, origin: string, file?: string): ResolvedConfig {
  const parsed = v.safeParse(ConfigSchema, config);
  const mistakes = parsed.issues?.map((issue) => explain(ConfigSchema, issue)) ?? [];
  if (parsed.success && parsed.output.auth !== undefined)
    mistakes.push(...findProviderMistakes(parsed.output.auth, "auth"));
  if (parsed.success && mistakes.length === 0) return parsed.output;
  const [path = ""] = mistakes[0]!.split(": ");
  const place = file === undefined ? undefined : findKey(file, path.split("."));
  throw new ConfigError(mistakes.map((mistake) => `${origin}: ${mistake}`).join("\n"), { place });
}

// The message of each schema is what was expected; `explain` adds the place and what was found.
const text = (what: string) => v.pipe(v.string(what), v.nonEmpty(what));
const texts = (what: string) => v.array(v.string(what), what);
const wholeNumber = (min: number, max: number, what: string) =>
  v.pipe(v.number(what), v.integer(what), v.minValue(min, what), v.maxValue(max, what));
const fn = <F>(what: string) => v.custom<F>((value) => typeof value === "function", what);

/** Knows its keys, and refuses an array, which valibot would take for an object. */
const object = <E extends v.ObjectEntries>(entries: E, what: string) => {
  const known = v.strictObject(entries, what);
  // What is never parsed has no type to give: the object's own stands for both.
  return v.lazy((value) => (Array.isArray(value) ? (v.never(what) as unknown as typeof known) : known));
};

const originRule = "an origin such as http://localhost:5173, an array of them or a function";
const isOrigin = (value: unknown): boolean =>
  value === "*" ||
  value === "null" ||
  // `URL` knows no origin of `capacitor://localhost` or `chrome-extension://…`.
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
      'named origins beside it (browsers refuse credentials with "*")',
    ),
    ["credentials"],
  ),
);

const isLogger = (value: unknown): boolean =>
  ["info", "warn", "error"].every((level) => typeof (value as Record<string, unknown> | null)?.[level] === "function");
const isBackend = (value: unknown): boolean => typeof (value as Backend | undefined)?.open === "function";

const limitEntries = Object.entries(defaultLimits).map(([name, value]) => {
  const most = name.endsWith("Ms") ? 2_147_483_647 : Number.MAX_SAFE_INTEGER; // a timer cannot wait longer
  const least = name === "stepTimeoutMs" ? 0 : 1;
  return [name, v.optional(wholeNumber(least, most, `a whole number from ${least} to ${most}`), value)];
});
// `fromEntries` forgets the names, which are exactly those of the defaults.
const limits = Object.fromEntries(limitEntries) as {
  [K in keyof Limits]: v.OptionalSchema<v.GenericSchema<number>, number>;
};

const Server = object(
  {
    port: v.optional(wholeNumber(0, 65_535, "a port number from 0 to 65535")),
    host: v.optional(text("a host name or address")),
    https: v.optional(v.boolean("true or false")),
    allowedHosts: v.optional(texts("an array of host names"), []),
    cors: v.optional(v.lazy((value) => (value === false ? v.literal(false) : Cors))),
    limits: v.optional(object(limits, "an object"), {}),
  },
  "an object",
);

const ConfigSchema = object(
  {
    agents: v.optional(
      v.array(v.custom<AgentDefinition>(isAgent, "an agent made by defineAgent()"), "an array of agents"),
      [],
    ),
    agentsDir: v.optional(text("the name of a folder")),
    workflows: v.optional(
      v.array(v.custom<WorkflowDefinition>(isWorkflow, "a workflow made by defineWorkflow()"), "an array of workflows"),
      [],
    ),
    workflowsDir: v.optional(text("the name of a folder")),
    server: v.optional(Server, {}),
    auth: v.optional(v.custom<AuthProvider>(() => true)), // checked by its own rules, which do not print texts
    logger: v.optional(v.custom<HostLogger>(isLogger, "a logger with info(), warn() and error()")),
    backend: v.optional(v.custom<Backend>(isBackend, "a backend such as embedded()"), () => embedded()),
    configureApp: v.optional(fn<NonNullable<Config["configureApp"]>>("a function of the app")),
    onDispose: v.optional(fn<NonNullable<Config["onDispose"]>>("a function")),
  },
  "an object made by defineConfig()",
);
