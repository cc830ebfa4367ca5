import { resolve } from "node:path";
import { cut } from "../../core/cut.ts";
import { durationRule, fromDuration } from "../../core/duration.ts";
import type { Backend } from "../../engine/backend.ts";
import { EmbeddedEngine } from "./engine.ts";
import { inspect } from "./inspect.ts";

export interface EmbeddedBackendOptions {
  /** The file, relative to the config. `":memory:"` stores nothing. @default ".agentserve/data.db" */
  path?: string;
  /** `normal` survives a crash of the process, `full` also power loss. @default "normal" */
  durability?: "normal" | "full";
  /** The time for which ended executions are kept; `false` keeps them for ever. Suspended ones never expire. @default "7d" */
  retention?: string | false;
}

/** Stores executions and conversations in one SQLite file. The server opens it once. */
export function embedded({
  path = ".agentserve/data.db",
  durability = "normal",
  retention = "7d",
}: EmbeddedBackendOptions = {}): Backend {
  const retentionMs = retention === false ? undefined : fromDuration(retention);
  if (typeof path !== "string" || path === "") throw invalidOption("path", "a file path", path);
  if (durability !== "normal" && durability !== "full")
    throw invalidOption("durability", '"normal" or "full"', durability);
  if (retention !== false && !retentionMs) throw invalidOption("retention", `false or ${durationRule}`, retention);
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

const invalidOption = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`embedded({ ${key} }): expected ${expected}, found ${cut(JSON.stringify(found) ?? String(found))}`);
