import { resolve } from "node:path";
import { cut } from "../../core/cut.ts";
import type { Backend } from "../../engine/contract/backend.ts";
import { toRetention, type RetentionOptions } from "../../engine/retention.ts";
import { EmbeddedEngine } from "./engine.ts";
import { refuseHeld } from "./file/lock.ts";
import { inspect } from "./file/inspect.ts";

export interface EmbeddedBackendOptions {
  /** The file, relative to the config. `":memory:"` stores nothing. @default ".agentserve/data.db" */
  path?: string;
  /** `normal` survives a crash of the process, `full` also power loss. @default "normal" */
  durability?: "normal" | "full";
  /** The time for which ended executions are kept; `false` keeps them for ever. Or one time for each kind. @default "7d" */
  retention?: string | false | RetentionOptions;
}
/** Stores executions and conversations in one SQLite file. The server opens it once. */
export function embedded({
  path = ".agentserve/data.db",
  durability = "normal",
  retention,
}: EmbeddedBackendOptions = {}): Backend {
  if (typeof path !== "string" || path === "") throw invalidOption("path", "a file path", path);
  if (durability !== "normal" && durability !== "full")
    throw invalidOption("durability", '"normal" or "full"', durability);
  const kept = toRetention("embedded", retention);
  return {
    type: "embedded",
    hasFile: true,
    settings: { path, durability, ...kept },
    inspect: ({ root, file = path }) => inspect(toPath(root, file)),
    open({ root, file = path, ...parts }) {
      const own = { durability, retention: kept, path: toPath(root, file) };
      refuseHeld(own.path); // a second server on the file is refused here, and not only at its first request
      const engine = new EmbeddedEngine({ ...parts, ...own });
      const { conversations, schedules, usage } = engine;
      return { engine, conversations, schedules, usage };
    },
  };
}

const toPath = (root: string, file: string): string => (file === ":memory:" ? file : resolve(root, file));

const invalidOption = (key: string, expected: string, found: unknown): TypeError =>
  new TypeError(`embedded({ ${key} }): expected ${expected}, found ${cut(JSON.stringify(found) ?? String(found))}`);
