import { cut } from "../../core/cut.ts";
import type { Backend } from "../../engine/backend.ts";
import type { ServeOptions } from "./endpoint.ts";
import { RestateEngine } from "./engine.ts";
import { toRetention, type RestateRetention } from "./retention.ts";

export type { RestateRetention, ServeOptions };

export interface RestateBackendOptions {
  /** The URLs of Restate's ingress, such as `http://restate:8080`. */
  ingress: string | readonly string[];
  /** The URL of Restate's admin API, such as `http://restate:9070`. */
  admin: string;
  /** The name under which this server's executions are stored. Replicas of one server have the same name. */
  name: string;
  /** The port on which Restate calls this replica, and the URL by which it reaches the replicas. */
  serve: ServeOptions;
  /** Restate's public keys. With them, calls that Restate has not signed are refused. */
  identityKeys?: readonly string[];
  /** The time for which ended executions are kept; `false` keeps them for ever. Or one time for each kind. @default "7d" */
  retention?: string | false | RestateRetention;
}

/** Stores and runs executions in a Restate cluster, on any number of replicas. */
export function restate(options: RestateBackendOptions): Backend {
  const { ingress, admin, name, serve, identityKeys, retention = "7d" } = options;
  const ingresses = (typeof ingress === "string" ? [ingress] : ingress).map((url) => toUrl("ingress", url));
  if (ingresses.length === 0) throw invalidOption("ingress", "at least one URL", ingress);
  if (!/^[a-zA-Z][\w.-]*$/.test(name)) throw invalidOption("name", "letters, digits, `-`, `_` and `.`", name);
  if (!Number.isInteger(serve?.port)) throw invalidOption("serve.port", "a port", serve?.port);
  const settings = { ingress: ingresses, admin: toUrl("admin", admin), name, serve, identityKeys };
  const kept = toRetention(retention);
  return {
    type: "restate",
    settings: { ...settings, ...kept },
    open({ file, ...parts }) {
      if (file !== undefined) throw new Error("--data names a file, and the Restate backend has none");
      const engine = new RestateEngine({ ...parts, ...settings, retention: kept });
      return { engine, conversations: engine.conversations };
    },
  };
}

function toUrl(key: string, text: unknown): string {
  if (typeof text !== "string" || !URL.canParse(text)) throw invalidOption(key, "a URL", text);
  return text.replace(/\/+$/, "");
}

const invalidOption = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`restate({ ${key} }): expected ${expected}, found ${cut(JSON.stringify(found) ?? String(found))}`);
