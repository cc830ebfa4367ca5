import { resolve } from "node:path";
import type { Backend } from "../../engine/types.ts";
import { EmbeddedEngine } from "./engine.ts";

export interface EmbeddedBackendOptions {
  /** The file, beside the config unless it is absolute; `":memory:"` keeps nothing. @default ".agentserve/data.db" */
  path?: string;
  /** `normal` survives a crash of the process, `full` also power loss. @default "normal" */
  durability?: "normal" | "full";
}

/** Executions in one SQLite file. Only describes it: the server opens it, once. */
export function embedded({
  path = ".agentserve/data.db",
  durability = "normal",
}: EmbeddedBackendOptions = {}): Backend {
  return {
    type: "embedded",
    open({ root, file = path, ...parts }) {
      return new EmbeddedEngine({ ...parts, durability, path: file === ":memory:" ? file : resolve(root, file) });
    },
  };
}
