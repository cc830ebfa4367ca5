import type { StepCode, Retry, Step, WorkflowDefinition } from "./definition.ts";
import type { EntrySuffix } from "./walk/journal-keys.ts";

/** The user's code of a whole workflow, by path and suffix. It is made once for each version of the config. */
export type CodeTable = ReadonlyMap<string, TableCode>;
/** The code of a step with the defaults of the workflow that it is in. */
interface TableCode extends StepCode {
  readonly retry: Retry;
}

export function toCodeTable(workflow: WorkflowDefinition): CodeTable {
  const table = new Map<string, TableCode>();
  addWorkflow(table, workflow, "");
  return table;
}

export function findCode(table: CodeTable, path: string, suffix: EntrySuffix): TableCode {
  const code = table.get(path + suffix);
  if (!code) throw new Error(`Step ${path} has no code "${suffix}"`);
  return code;
}

function addWorkflow(table: Map<string, TableCode>, workflow: WorkflowDefinition, prefix: string): void {
  const { resultSchema } = workflow;
  if (resultSchema) table.set(`${prefix}>`, { execute: identity, outputSchema: resultSchema, retry: once });
  addSteps(table, workflow.steps, workflow, prefix);
}

function addSteps(
  table: Map<string, TableCode>,
  steps: readonly Step[],
  workflow: WorkflowDefinition,
  prefix: string,
): void {
  for (const { id, codes, steps: inner = [], workflow: sub } of steps) {
    const path = prefix + id;
    for (const [suffix, code] of Object.entries(codes)) {
      const retry = code.retry ?? (suffix === "" ? (workflow.retry ?? once) : once);
      const suspendSchema = code.suspendSchema ?? workflow.suspendSchema;
      table.set(path + suffix, { ...code, retry, suspendSchema });
    }
    if (!sub) {
      addSteps(table, inner, workflow, prefix);
      continue;
    }
    if (sub.inputSchema) table.set(`${path}<`, { execute: identity, outputSchema: sub.inputSchema, retry: once });
    addWorkflow(table, sub, `${path}/`);
  }
}

const once: Retry = { attempts: 1 };
const identity = ({ data }: { data: unknown }): unknown => data;
