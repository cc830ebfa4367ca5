import type { ToolSet } from "ai";
import { ServeError } from "../../core/error.ts";
import type { Sdk } from "../sdk.ts";
import type { ToolsByName } from "../tools/check-tools.ts";
import type { Operation } from "./operation.ts";

/**
 * Returns a tool in place of each one that was approved and no longer exists: its call ends with an error that says so, and the
 * turn continues. Undefined if there are none.
 */
export function toGoneTools(sdk: Sdk, tools: ToolsByName, { open, decided }: Operation): ToolSet | undefined {
  const names = open.flatMap(({ toolCallId, toolName, inner }) => {
    const isRun = inner !== undefined || decided?.get(toolCallId)?.approved === true;
    return isRun && !Object.hasOwn(tools, toolName) ? [toolName] : [];
  });
  if (names.length === 0) return undefined;
  return Object.fromEntries(
    names.map((name) => [name, { inputSchema: sdk.jsonSchema({}), execute: () => refuse(name) }]),
  );
}

function refuse(name: string): never {
  throw new ServeError(500, `Tool ${name} no longer exists`);
}
