import * as v from "valibot";
import { isAgent, type AgentDefinition } from "../agents/define.ts";
import { isModelName, modelNameRule } from "../agents/usage/prices.ts";
import { findProviderMistakes } from "../auth/options.ts";
import type { AuthProvider } from "../auth/provider.ts";
import { embedded } from "../backends/embedded/define.ts";
import type { Authorize } from "../core/access/authorize.ts";
import { explain } from "../core/schemas/explain.ts";
import type { Backend } from "../engine/contract/backend.ts";
import type { WorkflowDefinition } from "../engine/definition/definition.ts";
import { basePathRule, isBasePath } from "../http/path.ts";
import { isProxy, proxyRule } from "../http/client-address.ts";
import type { CorsOptions } from "../http/cors.ts";
import { toWindowMs, type RateLimitOptions } from "../http/rate-limit.ts";
import type { HostLogger } from "../observability/log-output.ts";
import { isSchedule, type ScheduleDefinition } from "../schedules/define.ts";
import { isWorkflow } from "../workflows/define.ts";
import type { Config, ResolvedConfig } from "./define.ts";
import { ConfigError } from "./error.ts";
import { findKey } from "./frame.ts";
import { constants, constantsKey, defaultLimits, findFormerLimits, type Constants, type Limits } from "./limits.ts";

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
  const [first = ""] = mistakes;
  const [path = ""] = first.split(": ");
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

/** A strict object schema. valibot itself would accept an array. */
const object = <E extends v.ObjectEntries>(entries: E, what: string) => notArray(v.strictObject(entries, what), what);
/** A `never` schema has no output, so the type of the given schema applies to both branches. */
function notArray<S extends v.GenericSchema>(schema: S, what: string) {
  return v.lazy((value) => (Array.isArray(value) ? (v.never(what) as unknown as S) : schema));
}

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
// `fromEntries` loses the key names. They are the keys of the defaults.
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
const PricesSchema = notArray(priceRecord, pricesRule);

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
