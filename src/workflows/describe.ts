import { toJsonSchema, type JsonSchema, type Side } from "../core/json-schema.ts";
import type { Schema } from "../core/schema.ts";
import type { Step, StepType, WorkflowDefinition } from "../engine/definition.ts";

export interface WorkflowSummary {
  id: string;
  name: string;
  purpose: string;
  stepsCount: number;
  status: "idle" | "running" | "suspended" | "completed" | "error";
}
export interface WorkflowDetail extends WorkflowSummary {
  steps: StepDetail[];
  inputSchema: JsonSchema;
  suspendSchema: JsonSchema | null;
  resumeSchema: JsonSchema | null;
}
export interface StepDetail {
  id: string;
  name: string;
  type: StepType;
  purpose: string;
  inputSchema?: JsonSchema | undefined;
  outputSchema?: JsonSchema | undefined;
  suspendSchema?: JsonSchema | undefined;
  resumeSchema?: JsonSchema | undefined;
  /** The steps inside this one. An addition to the specified format. */
  steps?: StepDetail[] | undefined;
}

/** Describes a workflow for `GET /workflows/:id`. Called once per load of the config. */
export function describeWorkflow(workflow: WorkflowDefinition, warn: (message: string) => void): WorkflowDetail {
  function toSchema(schema: Schema | undefined, side: Side, where: string): JsonSchema | undefined {
    if (!schema) return undefined;
    return toJsonSchema(schema, side, (reason) =>
      warn(`workflow ${workflow.id}: ${where} cannot be fully converted to JSON Schema: ${reason}`),
    );
  }
  function describeStep(step: Step): StepDetail {
    const { id, name, type, purpose } = step;
    return {
      id,
      name,
      type,
      purpose,
      inputSchema: toSchema(step.inputSchema, "input", `${id}.inputSchema`),
      outputSchema: toSchema(step.outputSchema, "output", `${id}.outputSchema`),
      suspendSchema: toSchema(step.suspendSchema, "output", `${id}.suspendSchema`),
      resumeSchema: toSchema(step.resumeSchema, "input", `${id}.resumeSchema`),
      steps: step.steps?.map(describeStep),
    };
  }
  const { id, name, purpose } = workflow;
  return {
    id,
    name,
    purpose,
    stepsCount: workflow.steps.length,
    status: "idle",
    steps: workflow.steps.map(describeStep),
    inputSchema: toSchema(workflow.inputSchema, "input", "input") ?? {},
    suspendSchema: toSchema(workflow.suspendSchema, "output", "suspendSchema") ?? null,
    resumeSchema: toSchema(workflow.resumeSchema, "input", "resumeSchema") ?? null,
  };
}

export function toSummary({ id, name, purpose, stepsCount, status }: WorkflowDetail): WorkflowSummary {
  return { id, name, purpose, stepsCount, status };
}
