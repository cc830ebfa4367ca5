import { toVisible } from "../core/visible.ts";
import type { Json, StepEntry, WorkflowEntry } from "./catalog.ts";

/** A route, for one workflow: one property of its body has a schema of its own. */
export interface OwnOperation {
  readonly method: "POST";
  readonly pattern: string;
  readonly id: string;
  readonly operationId: string;
  readonly summary: string;
  readonly description: string;
  readonly property: "input" | "resumeData";
  /** Any of them will do. */
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

/** OpenAPI reads Markdown, and HTML, in a description. An author's text is text. */
const toMarkdown = (text: string): string =>
  toVisible(text, { allowed: "\n\t", most: 2_000 }).replace(/[\\`*_[\]<&]/g, String.raw`\$&`);

export const executePattern = "/workflows/:id/execute";
export const resumePattern = "/workflows/:id/executions/:executionId/resume";

/** What the workflow and its steps can be resumed with, each kind once. */
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
