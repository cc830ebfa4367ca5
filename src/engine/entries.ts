import type { EntryCode, Retry, Step, WorkflowDefinition } from "./definition.ts";
import type { EntrySuffix } from "./walk/journal-keys.ts";

/** The code of all entries of a workflow, by path and suffix. It is made once for each version of the config. */
export type EntryTable = ReadonlyMap<string, TableEntry>;
/** The code of an entry with the defaults of the workflow that it is in. */
export interface TableEntry extends EntryCode {
  readonly retry: Retry;
}

export function toEntryTable(workflow: WorkflowDefinition): EntryTable {
  const table = new Map<string, TableEntry>();
  addWorkflow(table, workflow, "");
  return table;
}

export function findEntry(table: EntryTable, path: string, suffix: EntrySuffix): TableEntry {
  const entry = table.get(path + suffix);
  if (!entry) throw new Error(`Step ${path} has no entry "${suffix}"`);
  return entry;
}

function addWorkflow(table: Map<string, TableEntry>, workflow: WorkflowDefinition, prefix: string): void {
  const { resultSchema } = workflow;
  if (resultSchema) table.set(`${prefix}>`, { code: identity, outputSchema: resultSchema, retry: once });
  addSteps(table, workflow.steps, workflow, prefix);
}

function addSteps(
  table: Map<string, TableEntry>,
  steps: readonly Step[],
  workflow: WorkflowDefinition,
  prefix: string,
): void {
  for (const { id, entries, steps: inner = [], workflow: sub } of steps) {
    const path = prefix + id;
    for (const [suffix, entry] of Object.entries(entries)) {
      const retry = entry.retry ?? (suffix === "" ? (workflow.retry ?? once) : once);
      const suspendSchema = entry.suspendSchema ?? workflow.suspendSchema;
      table.set(path + suffix, { ...entry, retry, suspendSchema });
    }
    if (!sub) {
      addSteps(table, inner, workflow, prefix);
      continue;
    }
    if (sub.inputSchema) table.set(`${path}<`, { code: identity, outputSchema: sub.inputSchema, retry: once });
    addWorkflow(table, sub, `${path}/`);
  }
}

const once: Retry = { attempts: 1 };
const identity = ({ data }: { data: unknown }): unknown => data;
