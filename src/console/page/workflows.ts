import { ApiError, ask, path } from "./server/api.ts";
import { useLoaded, type Loaded } from "./server/load.ts";
import type { JsonSchema } from "./parts/schema.ts";

export interface StepDefinition {
  readonly id: string;
  readonly name: string;
  readonly type: string;
  readonly purpose: string;
  /** The order in which it runs what is inside it. */
  readonly shape: string;
  readonly inputSchema?: JsonSchema;
  readonly outputSchema?: JsonSchema;
  readonly suspendSchema?: JsonSchema;
  readonly resumeSchema?: JsonSchema;
  readonly steps?: readonly StepDefinition[];
}
export interface WorkflowDefinition extends Pick<StepDefinition, "id" | "name" | "purpose"> {
  readonly steps: readonly StepDefinition[];
  readonly inputSchema: JsonSchema;
  readonly resumeSchema: JsonSchema | null;
}

/** The definitions that were read last. `dev` changes them at each save, so they expire. */
const known = new Map<string, { readonly at: number; readonly reading: Promise<WorkflowDefinition | null> }>();
const lifetime = 10_000;
const max = 200;

/** Reads a workflow, at most once in ten seconds for the whole page. Null: there is none. */
function readWorkflow(id: string): Promise<WorkflowDefinition | null> {
  const found = known.get(id);
  if (found && Date.now() - found.at < lifetime) return found.reading;
  const reading = ask<WorkflowDefinition>(path`/workflows/${id}`).catch((error: unknown) => {
    if (error instanceof ApiError && error.status === 404) return null;
    known.delete(id);
    throw error;
  });
  if (known.size >= max) known.clear();
  known.set(id, { at: Date.now(), reading });
  return reading;
}
export const useWorkflow = (id: string): Loaded<WorkflowDefinition | null> => useLoaded(() => readWorkflow(id), [id]);

/** Returns the schema of the answer to a step: its own, else of the innermost workflow around it with one. */
export function findResumeSchema(workflow: WorkflowDefinition, stepPath: string): JsonSchema | undefined {
  const found = findSteps(workflow.steps, stepPath.split("/"));
  const own = found.findLast(({ resumeSchema }) => resumeSchema)?.resumeSchema;
  return own ?? workflow.resumeSchema ?? undefined;
}

/** Finds the steps of a path, the outermost first: sub-workflows and loops, then the step itself. */
function findSteps(steps: readonly StepDefinition[], [head = "", ...rest]: readonly string[]): StepDefinition[] {
  const step = findBeside(steps, head);
  if (!step || rest.length === 0) return step ? [step] : [];
  return [step, ...findSteps(step.steps ?? [], step.shape === "loop" ? rest.slice(1) : rest)];
}

/** Finds a step among these and those inside them, but not inside sub-workflows and loops: their paths are longer. */
function findBeside(steps: readonly StepDefinition[], id: string): StepDefinition | undefined {
  for (const step of steps) {
    const isClosed = step.shape === "child" || step.shape === "loop";
    const found = step.id === id ? step : isClosed ? undefined : findBeside(step.steps ?? [], id);
    if (found) return found;
  }
  return undefined;
}
