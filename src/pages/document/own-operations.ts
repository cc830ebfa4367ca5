import { toVisible } from "../../core/terminal/visible.ts";
import type { AgentEntry, Json, StepEntry, WorkflowEntry } from "../catalog.ts";
import { toValidExample } from "../example.ts";
import { ownTags } from "./labels.ts";

/** An operation of one workflow or agent: a route with the id in its path. */
export interface OwnOperation {
  readonly method: "POST";
  readonly pattern: string;
  readonly id: string;
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  /** Empty if the author has not described the entry. */
  readonly description: string;
  /** A body that the operation accepts. */
  readonly example?: Json | undefined;
  /** The part of the body whose schema is the author's. */
  readonly body?: OwnBody;
  /** The schema of the result, if the author has given one. */
  readonly result?: Json | undefined;
}
export interface OwnBody {
  readonly property: "input" | "resumeData";
  readonly isRequired: boolean;
  /** The accepted schemas. A value must match one of them. */
  readonly schemas: readonly Json[];
}

export function toWorkflowOperations({ id, name, purpose, inputSchema, ...rest }: WorkflowEntry): OwnOperation[] {
  const title = toVisible(name, { max: 120 });
  const shared = {
    method: "POST",
    id,
    tag: ownTags.workflows,
    description: toMarkdown(purpose),
    result: rest.resultSchema,
  } as const;
  const execute: OwnOperation = {
    ...shared,
    pattern: executePattern,
    operationId: `execute-workflow-${id}`,
    summary: title,
    example: toBodyExample("input", inputSchema),
    body: { property: "input", isRequired: true, schemas: [inputSchema] },
  };
  const schemas = toResumeSchemas(rest);
  const [first] = schemas;
  if (!first) return [execute];
  const resume: OwnOperation = {
    ...shared,
    pattern: resumePattern,
    operationId: `resume-workflow-${id}`,
    summary: `Resume ${title}`,
    example: toBodyExample("resumeData", first),
    body: { property: "resumeData", isRequired: false, schemas },
  };
  return [execute, resume];
}

function toBodyExample(property: string, schema: Json): Json | undefined {
  const example = toValidExample(schema);
  return example && { [property]: example.value };
}

/** Only one operation for each agent: its others have no own schemas. */
export function toAgentOperation({ id, name, description }: AgentEntry): OwnOperation {
  return {
    method: "POST",
    pattern: textPattern,
    id,
    operationId: `ask-agent-${id}`,
    tag: ownTags.agents,
    summary: toVisible(name, { max: 120 }),
    description: toMarkdown(description),
    example: { input: "Hello" },
  };
}

/** Escapes an author's text. OpenAPI renders Markdown and HTML in a description. */
const toMarkdown = (text: string): string =>
  toVisible(text, { allowed: "\n\t", max: 2_000 }).replace(/[\\`*_[\]<&]/g, String.raw`\$&`);

const textPattern = "/agents/:id/text";
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
