import { resolve } from "node:path";
import { cut } from "../../core/cut.ts";
import { durationRule, fromDuration } from "../../core/duration.ts";
import { isObject } from "../../core/json.ts";
import type { Backend } from "../../engine/backend.ts";
import { EmbeddedEngine } from "./engine.ts";
import { inspect } from "./file/inspect.ts";
import type { Retention } from "./retention.ts";

export interface EmbeddedBackendOptions {
  /** The file, relative to the config. `":memory:"` stores nothing. @default ".agentserve/data.db" */
  path?: string;
  /** `normal` survives a crash of the process, `full` also power loss. @default "normal" */
  durability?: "normal" | "full";
  /** The time for which ended executions are kept; `false` keeps them for ever. Or one time for each kind. @default "7d" */
  retention?: string | false | EmbeddedRetention;
}
/** The times for which executions are kept, such as `"7d"`. `false` keeps them for ever. */
export interface EmbeddedRetention {
  /** Ended executions, from their end on. @default "7d" */
  executions?: string | false;
  /** Suspended executions, from their suspension on. @default false */
  suspended?: string | false;
}

/** Stores executions and conversations in one SQLite file. The server opens it once. */
export function embedded({
  path = ".agentserve/data.db",
  durability = "normal",
  retention = "7d",
}: EmbeddedBackendOptions = {}): Backend {
  if (typeof path !== "string" || path === "") throw invalidOption("path", "a file path", path);
  if (durability !== "normal" && durability !== "full")
    throw invalidOption("durability", '"normal" or "full"', durability);
  const kept = toRetention(retention);
  return {
    type: "embedded",
    settings: { path, durability, ...kept },
    inspect: ({ root, file = path }) => inspect(toPath(root, file)),
    open({ root, file = path, ...parts }) {
      const own = { durability, retention: kept, path: toPath(root, file) };
      const engine = new EmbeddedEngine({ ...parts, ...own });
      return { engine, conversations: engine.conversations };
    },
  };
}

function toRetention(retention: NonNullable<EmbeddedBackendOptions["retention"]>): Retention {
  if (!isObject(retention)) return { endedMs: toMs("retention", retention), suspendedMs: undefined };
  const { executions = "7d", suspended = false, ...unknown } = retention;
  const [key] = Object.keys(unknown);
  if (key !== undefined) throw new TypeError(`embedded({ retention }): unknown option ${JSON.stringify(key)}`);
  return { endedMs: toMs("retention.executions", executions), suspendedMs: toMs("retention.suspended", suspended) };
}

function toMs(key: string, time: unknown): number | undefined {
  if (time === false) return undefined;
  const ms = fromDuration(time);
  if (!ms) throw invalidOption(key, `false or ${durationRule}`, time);
  return ms;
}

const toPath = (root: string, file: string): string => (file === ":memory:" ? file : resolve(root, file));

const invalidOption = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`embedded({ ${key} }): expected ${expected}, found ${cut(JSON.stringify(found) ?? String(found))}`);
