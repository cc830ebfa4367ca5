import { toCodeTable, type CodeTable } from "../definition/code-table.ts";
import type { WorkflowDefinition } from "../definition/definition.ts";
import { toIdempotencyKey } from "../walk/journal-keys.ts";
import { toRetryDelay } from "../walk/entries.ts";
import type { DelayOf } from "./select-steps.ts";

/** The retry delays of an execution on this code. The journal has none: they follow from the code that retries. */
export function toDelays(workflow: WorkflowDefinition, executionId: string): DelayOf {
  let codes: CodeTable | undefined;
  return ({ codePath }, attempt, entry) => {
    codes ??= toCodeTable(workflow);
    const { retry } = codes.get(codePath) ?? {};
    return retry ? toRetryDelay(retry, attempt, toIdempotencyKey(executionId, entry)) : 0;
  };
}
