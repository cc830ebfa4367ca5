import { resolve } from "node:path";
import { durationRule, fromDuration } from "../../core/duration.ts";
import type { Backend } from "../../engine/backend.ts";
import { EmbeddedEngine } from "./engine.ts";
import { inspect } from "./inspect.ts";

export interface EmbeddedBackendOptions {
  /** The file, beside the config unless it is absolute; `":memory:"` keeps nothing. @default ".agentserve/data.db" */
  path?: string;
  /** `normal` survives a crash of the process, `full` also power loss. @default "normal" */
  durability?: "normal" | "full";
  /** How long ended executions are kept; false is for ever. Suspended ones never expire. @default "7d" */
  retention?: string | false;
}

/** Executions and conversations in one SQLite file. Only describes it: the server opens it, once. */
export function embedded({
  path = ".agentserve/data.db",
  durability = "normal",
  retention = "7d",
}: EmbeddedBackendOptions = {}): Backend {
  const retentionMs = retention === false ? undefined : fromDuration(retention);
  if (typeof path !== "string" || path === "") throw mistake("path", "the name of a file", path);
  if (durability !== "normal" && durability !== "full") throw mistake("durability", '"normal" or "full"', durability);
  if (retention !== false && !retentionMs) throw mistake("retention", `false or ${durationRule}`, retention);
  return {
    type: "embedded",
    settings: { path, durability, retentionMs },
    inspect: ({ root, file = path }) => inspect(toPath(root, file)),
    open({ root, file = path, ...parts }) {
      const own = { durability, retentionMs, path: toPath(root, file) };
      const engine = new EmbeddedEngine({ ...parts, ...own });
      return { engine, conversations: engine.conversations };
    },
  };
}

const toPath = (root: string, file: string): string => (file === ":memory:" ? file : resolve(root, file));

const mistake = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`embedded({ ${key} }): expected ${expected}, found ${JSON.stringify(found) ?? String(found)}`);
