import { within } from "../../core/within.ts";
import type { AgentDefinition } from "../define.ts";
import { checkTools, findMissingTarget, type Served, type ToolsByName } from "./check-tools.ts";

/** Time limit of a function that returns tools. */
const maxLoadMs = 30_000;

/** Returns the tools of an agent. A function is called each time: the caller keeps the result. */
export async function loadTools({ id, tools }: AgentDefinition, served: Served): Promise<ToolsByName> {
  if (typeof tools !== "function") return tools;
  const onLate = (): never => {
    throw new Error(`agent ${id}: tools: the function has returned no tools within ${maxLoadMs / 1_000} seconds`);
  };
  const loaded = await within(maxLoadMs, (async () => tools())(), { onLate, keepAlive: false });
  checkTools(id, loaded);
  const missing = findMissingTarget(loaded, served);
  if (missing) throw new TypeError(`agent ${id}: tool ${missing.tool}: there is no ${missing.target}`);
  return Object.freeze({ ...loaded });
}
