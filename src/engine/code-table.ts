import type { Schema } from "../core/schema.ts";
import type { StepCode, Retry, Step, WorkflowDefinition } from "./definition.ts";
import type { EntrySuffix } from "./walk/journal-keys.ts";

/** The user's code of a whole workflow, by path and suffix. It is made once for each version of the config. */
export type CodeTable = ReadonlyMap<string, TableCode>;
/** The code of a step with the defaults of the workflow that it is in. */
export interface TableCode extends StepCode {
  readonly retry: Retry;
  /** True if the workflow may continue after a failure: the code is a side effect, or in a branch of a race. */
  readonly isTolerated: boolean;
}

export function toCodeTable(workflow: WorkflowDefinition): CodeTable {
  const table = new Map<string, TableCode>();
  addWorkflow(table, workflow, { prefix: "", isTolerated: false });
  return table;
}

export function findCode(table: CodeTable, path: string, suffix: EntrySuffix): TableCode {
  const code = table.get(path + suffix);
  if (!code) throw new Error(`Step ${path} has no code "${suffix}"`);
  return code;
}

/** The delay before an attempt, in milliseconds. */
export function toDelay({ delay = 0, backoff = 1 }: Retry, attempt: number): number {
  return attempt === 1 ? 0 : delay * backoff ** (attempt - 2);
}

/** The place of steps: the prefix of their paths, and whether the workflow may continue after a failure there. */
interface CodePlace {
  readonly prefix: string;
  readonly isTolerated: boolean;
}

function addWorkflow(table: Map<string, TableCode>, workflow: WorkflowDefinition, place: CodePlace): void {
  const { prefix, isTolerated } = place;
  if (workflow.resultSchema) table.set(`${prefix}>`, toCheck(workflow.resultSchema, isTolerated));
  addSteps(table, workflow.steps, workflow, place);
}

function addSteps(
  table: Map<string, TableCode>,
  steps: readonly Step[],
  workflow: WorkflowDefinition,
  { prefix, isTolerated: isOuter }: CodePlace,
): void {
  for (const { id, type, codes, steps: inner = [], workflow: sub } of steps) {
    const path = prefix + id;
    const isTolerated = isOuter || type === "andTap" || type === "andRace";
    for (const [suffix, code] of Object.entries(codes)) {
      const retry = code.retry ?? (suffix === "" ? (workflow.retry ?? once) : once);
      const suspendSchema = code.suspendSchema ?? workflow.suspendSchema;
      table.set(path + suffix, { ...code, retry, suspendSchema, isTolerated });
    }
    if (!sub) {
      addSteps(table, inner, workflow, { prefix, isTolerated });
      continue;
    }
    if (sub.inputSchema) table.set(`${path}<`, toCheck(sub.inputSchema, isTolerated));
    addWorkflow(table, sub, { prefix: `${path}/`, isTolerated });
  }
}

/** The code that checks a value against a schema. */
function toCheck(outputSchema: Schema, isTolerated: boolean): TableCode {
  return { execute: identity, outputSchema, retry: once, isTolerated };
}

const once: Retry = { attempts: 1 };
const identity = ({ data }: { data: unknown }): unknown => data;
