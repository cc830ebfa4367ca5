import { cut } from "../../core/cut.ts";
import { isObject } from "../../core/json.ts";
import { isLoopback } from "../../core/loopback.ts";
import type { Backend } from "../../engine/contract/backend.ts";
import { toRetention, type Retention, type RetentionOptions } from "../../engine/retention.ts";

export interface RestateBackendOptions {
  /** The URLs of Restate's ingress, such as `http://restate:8080`. A call that cannot connect goes to the next one. */
  ingress: string | readonly string[];
  /** The URL of Restate's admin API, such as `http://restate:9070`. */
  admin: string;
  /** The name under which executions and conversations are stored. Replicas of one server have the same name. */
  name: string;
  /** The port for the calls of Restate, and the URL of the replicas. */
  serve: RestateServeOptions;
  /** Restate's public keys, `publickeyv1_…`. With them, calls that Restate has not signed are refused. */
  identityKeys?: readonly string[];
  /** The time for which ended executions are kept; `false` keeps them for ever. Or one time for each kind. @default "7d" */
  retention?: string | false | RetentionOptions;
  /** Time limits of calls to Restate. A request gets 503 after them. */
  timeouts?: Partial<RestateTimeouts>;
}
export interface RestateTimeouts {
  /** Calls that read. @default 2000 */
  readonly readMs: number;
  /** Calls that start or change something. @default 5000 */
  readonly writeMs: number;
}
export interface RestateServeOptions {
  /** @default "127.0.0.1" */
  readonly host?: string | undefined;
  /** The port that Restate calls this replica on. */
  readonly port: number;
  /** The URL at which Restate reaches the replicas, such as a load balancer. @default host and port */
  readonly url?: string | undefined;
}

/** The options, checked and complete. */
export interface RestateSettings {
  readonly ingress: readonly string[];
  readonly admin: string;
  readonly name: string;
  readonly serve: { readonly host: string; readonly port: number; readonly url: string | undefined };
  readonly identityKeys: readonly string[];
  readonly retention: Retention;
  readonly timeouts: RestateTimeouts;
}

export function toSettings(options: RestateBackendOptions): RestateSettings {
  refuseUnknown("", options, ["ingress", "admin", "name", "serve", "identityKeys", "retention", "timeouts"]);
  const { ingress, admin, name, serve, identityKeys = [], retention, timeouts = {} } = options;
  const ingresses = Array.isArray(ingress) ? ingress : [ingress];
  if (ingresses.length === 0) throw invalid("ingress", "at least one URL", ingress);
  if (typeof name !== "string" || !/^[a-zA-Z][\w.-]{0,99}$/.test(name))
    throw invalid("name", "a letter, then letters, digits, `-`, `_` and `.`, at most 100", name);
  if (!Array.isArray(identityKeys) || !identityKeys.every(isKey))
    throw invalid("identityKeys", "a list of keys such as publickeyv1_…", identityKeys);
  return {
    ingress: ingresses.map((url) => toUrl("ingress", url)),
    admin: toUrl("admin", admin),
    name,
    serve: toServe(serve),
    identityKeys,
    retention: toRetention("restate", retention),
    timeouts: toTimeouts(timeouts),
  };
}

function toServe(serve: RestateServeOptions): RestateSettings["serve"] {
  refuseUnknown("serve.", serve, ["host", "port", "url"]);
  const { host = "127.0.0.1", port, url } = serve;
  if (typeof host !== "string" || host === "") throw invalid("serve.host", "a host name or an address", host);
  if (!Number.isInteger(port) || port < 0 || port > 65_535)
    throw invalid("serve.port", "a port number from 0 to 65535", port);
  return { host, port, url: url === undefined ? undefined : toUrl("serve.url", url) };
}

function toTimeouts(timeouts: Partial<RestateTimeouts>): RestateTimeouts {
  refuseUnknown("timeouts.", timeouts, ["readMs", "writeMs"]);
  const { readMs = 2_000, writeMs = 5_000 } = timeouts;
  for (const [key, ms] of Object.entries({ readMs, writeMs }))
    if (!Number.isInteger(ms) || ms < 1 || ms > 2 ** 31 - 1)
      throw invalid(`timeouts.${key}`, "milliseconds from 1 to 2147483647", ms);
  return { readMs, writeMs };
}

/** The risk of a port on which others than Restate can call the handlers. */
export function findRisk({ serve: { host, port }, identityKeys }: RestateSettings): Backend["risk"] {
  if (isLoopback(host) || identityKeys.length > 0) return undefined;
  return {
    message: `Anyone who can reach ${host}:${port} can read and change every execution: restate() has no identityKeys`,
    hint: "set identityKeys in restate(), and let only Restate reach this port",
  };
}

function toUrl(key: string, text: unknown): string {
  const isUrl = typeof text === "string" && /^https?:/.test(text) && URL.canParse(text);
  if (!isUrl) throw invalid(key, "a URL such as http://127.0.0.1:8080", text);
  return text.replace(/\/+$/, "");
}

const isKey = (key: unknown): boolean => typeof key === "string" && key.startsWith("publickeyv1_");

function refuseUnknown(prefix: string, options: unknown, known: readonly string[]): void {
  if (!isObject(options)) throw invalid(prefix.slice(0, -1) || "…", "an object", options);
  const unknown = Object.keys(options).find((key) => !known.includes(key));
  if (unknown !== undefined) throw new TypeError(`restate(): unknown option ${JSON.stringify(prefix + unknown)}`);
}

const invalid = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`restate({ ${key} }): expected ${expected}, found ${cut(JSON.stringify(found) ?? String(found))}`);
