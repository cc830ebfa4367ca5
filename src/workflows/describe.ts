import { toJsonSchema, type JsonSchema, type Side } from "../core/schemas/json-schema.ts";
import type { Schema } from "../core/schema.ts";
import type { Step, WorkflowDefinition } from "../engine/definition/definition.ts";
import { toTraits, type StepTraits } from "../engine/definition/step-traits.ts";

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
export interface StepDetail extends StepTraits {
  id: string;
  name: string;
  type: string;
  purpose: string;
  inputSchema?: JsonSchema | undefined;
  outputSchema?: JsonSchema | undefined;
  /** For an `andWorkflow` step, this and `resumeSchema` come from its workflow: the defaults of the steps inside. */
  suspendSchema?: JsonSchema | undefined;
  resumeSchema?: JsonSchema | undefined;
  /** The steps inside this one. An addition to the specified format. */
  steps?: StepDetail[] | undefined;
}

/** Describes a workflow for `GET /workflows/:id`. Called once per load of the config. */
export function describeWorkflow(workflow: WorkflowDefinition, warn: (message: string) => void): WorkflowDetail {
  const toSchema = createConverter(workflow, warn);
  function describeStep(step: Step): StepDetail {
    const { id, name, type, purpose } = step;
    const { suspendSchema, resumeSchema } = step.workflow ?? step;
    return {
      id,
      name,
      type,
      ...toTraits(step),
      purpose,
      inputSchema: toSchema(step.inputSchema, "input", `${id}.inputSchema`),
      outputSchema: toSchema(step.outputSchema, "output", `${id}.outputSchema`),
      suspendSchema: toSchema(suspendSchema, "output", `${id}.suspendSchema`),
      resumeSchema: toSchema(resumeSchema, "input", `${id}.resumeSchema`),
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

/** Describes the result of a workflow for `/doc`. Called once per load of the config. */
export function describeResult(workflow: WorkflowDefinition, warn: (message: string) => void): JsonSchema | undefined {
  return createConverter(workflow, warn)(workflow.resultSchema, "output", "result");
}

function createConverter({ id }: WorkflowDefinition, warn: (message: string) => void) {
  return (schema: Schema | undefined, side: Side, where: string): JsonSchema | undefined =>
    schema &&
    toJsonSchema(schema, side, (reason) =>
      warn(`workflow ${id}: ${where} cannot be fully converted to JSON Schema: ${reason}`),
    );
}

export function toSummary({ id, name, purpose, stepsCount, status }: WorkflowDetail): WorkflowSummary {
  return { id, name, purpose, stepsCount, status };
}
