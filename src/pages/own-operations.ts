import { toVisible } from "../core/visible.ts";
import type { Json, StepEntry, WorkflowEntry } from "./catalog.ts";

/** An operation of one workflow: a route whose body has one property with the schema of the workflow. */
export interface OwnOperation {
  readonly method: "POST";
  readonly pattern: string;
  readonly id: string;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly property: "input" | "resumeData";
  /** The accepted schemas. A value must match one of them. */
  readonly schemas: readonly Json[];
}

export function toOwnOperations({ id, name, purpose, inputSchema, ...rest }: WorkflowEntry): OwnOperation[] {
  const title = toVisible(name, { most: 120 });
  const shared = { method: "POST", id, description: toMarkdown(purpose) } as const;
  const execute: OwnOperation = {
    ...shared,
    pattern: executePattern,
    operationId: `execute-workflow-${id}`,
    summary: title,
    property: "input",
    schemas: [inputSchema],
  };
  const schemas = toResumeSchemas(rest);
  if (schemas.length === 0) return [execute];
  const resume: OwnOperation = {
    ...shared,
    pattern: resumePattern,
    operationId: `resume-workflow-${id}`,
    summary: `Resume ${title}`,
    property: "resumeData",
    schemas,
  };
  return [execute, resume];
}

/** Escapes an author's text. OpenAPI renders Markdown and HTML in a description. */
const toMarkdown = (text: string): string =>
  toVisible(text, { allowed: "\n\t", most: 2_000 }).replace(/[\\`*_[\]<&]/g, String.raw`\$&`);

export const executePattern = "/workflows/:id/execute";
export const resumePattern = "/workflows/:id/executions/:executionId/resume";

/** Returns the resume schemas of the workflow and its steps, without duplicates. */
export function toResumeSchemas({ resumeSchema, steps }: Pick<WorkflowEntry, "resumeSchema" | "steps">): Json[] {
  const found = new Map<string, Json>();
  function add(schema: Json | null | undefined): void {
    if (schema) found.set(JSON.stringify(schema), schema);
  }
  function walk(step: StepEntry): void {
    add(step.resumeSchema);
    step.steps?.forEach(walk);
  }
  add(resumeSchema);
  steps.forEach(walk);
  return [...found.values()];
}
