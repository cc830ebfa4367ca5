import type { Schema } from "../../core/schema.ts";
import type { StepCode, Retry, Step, WorkflowDefinition } from "./definition.ts";
import type { EntrySuffix } from "../walk/journal-keys.ts";
import { hasOwnPaths, isSequential } from "./step-traits.ts";

/** The user's code of a whole workflow, by path and suffix. It is made once for each version of the config. */
export type CodeTable = ReadonlyMap<string, TableCode>;
/** The code of a step with the defaults of its workflow. */
export interface TableCode extends StepCode {
  readonly retry: Retry;
  /** True if the workflow may continue after a failure: the code is a side effect, or in a branch of a race. */
  readonly isTolerated: boolean;
  /** True if error messages must not show its results. */
  readonly isRedacted: boolean;
  /** True if error messages must not show its `data`, which comes from a redacted step. */
  readonly isInputRedacted: boolean;
}

export function toCodeTable(workflow: WorkflowDefinition): CodeTable {
  const table = new Map<string, TableCode>();
  addWorkflow(table, workflow, { prefix: "", isTolerated: false, isRedacted: false, isSecret: false });
  return table;
}

export function findCode(table: CodeTable, path: string, suffix: EntrySuffix): TableCode {
  const code = table.get(path + suffix);
  if (!code) throw new Error(`Step ${path} has no code "${suffix}"`);
  return code;
}

/** The scope of steps: the prefix of their paths, and the rules that the steps around them make. */
interface CodeScope {
  readonly prefix: string;
  readonly isTolerated: boolean;
  readonly isRedacted: boolean;
  /** True if the first of them gets `data` from a redacted step. */
  readonly isSecret: boolean;
}

/** Returns whether the result has values of a redacted step. */
function addWorkflow(table: Map<string, TableCode>, workflow: WorkflowDefinition, scope: CodeScope): boolean {
  let isSecret = scope.isSecret;
  for (const step of workflow.steps) isSecret = addStep(table, step, workflow, { ...scope, isSecret });
  if (workflow.resultSchema) table.set(`${scope.prefix}>`, toCheck(workflow.resultSchema, { ...scope, isSecret }));
  return isSecret;
}

/** Returns whether the output has values of a redacted step. */
function addStep(table: Map<string, TableCode>, step: Step, workflow: WorkflowDefinition, outer: CodeScope): boolean {
  const { id, shape, codes, steps = [], workflow: sub, redact } = step;
  const path = outer.prefix + id;
  const isTolerated = outer.isTolerated || step.tolerates === true || shape === "race";
  const isRedacted = outer.isRedacted || redact === true;
  const scope: CodeScope = { ...outer, isTolerated, isRedacted };
  for (const [suffix, code] of Object.entries<StepCode | undefined>(codes)) {
    if (!code) continue;
    const retry = code.retry ?? (suffix === "" ? (workflow.retry ?? once) : once);
    const suspendSchema = code.suspendSchema ?? workflow.suspendSchema;
    const isInputRedacted = isRedacted || outer.isSecret;
    table.set(path + suffix, { ...code, retry, suspendSchema, isTolerated, isRedacted, isInputRedacted });
  }
  if (sub) {
    if (sub.inputSchema) table.set(`${path}<`, toCheck(sub.inputSchema, scope));
    const isSecret = addWorkflow(table, sub, { ...scope, prefix: `${path}/` });
    return isRedacted || (isSecret && !codes[">"]);
  }
  if (isSequential(step)) {
    const inside = hasOwnPaths(step) ? { ...scope, prefix: `${path}/` } : scope;
    return addSequence(table, step, workflow, inside) || isRedacted;
  }
  const inner = steps.map((one) => addStep(table, one, workflow, scope));
  return isRedacted || (step.passesOn === true && outer.isSecret) || inner.includes(true);
}

/** Adds steps that run one after the other. Returns whether the last output has values of a redacted step. */
function addSequence(
  table: Map<string, TableCode>,
  step: Step,
  workflow: WorkflowDefinition,
  scope: CodeScope,
): boolean {
  const { items, steps = [] } = step;
  let { isSecret } = scope;
  for (const one of steps) isSecret = addStep(table, one, workflow, { ...scope, isSecret });
  // An iteration gets the output of the one before.
  const isFed = items === "iteration" && isSecret && !scope.isSecret;
  return isFed ? addSequence(table, step, workflow, { ...scope, isSecret }) : isSecret;
}

/** The code that checks a value against a schema. */
function toCheck(outputSchema: Schema, { isTolerated, ...scope }: CodeScope): TableCode {
  const isRedacted = scope.isRedacted || scope.isSecret;
  return { execute: identity, outputSchema, retry: once, isTolerated, isRedacted, isInputRedacted: isRedacted };
}

const once: Retry = { attempts: 1 };
const identity = ({ data }: { data: unknown }): unknown => data;
