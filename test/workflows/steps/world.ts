import type { AuthProvider } from "agentserve";
import type { StepView } from "../../../src/workflows/history/step-views.ts";
import type { TestServer } from "../../harness/server.ts";

/** Takes the token for the id of the user. */
export const trusting: AuthProvider = { type: "trusting", verifyToken: (token) => ({ id: token }) };
export const as = (user: string): { headers: Record<string, string> } => ({
  headers: { authorization: `Bearer ${user}` },
});

/** The steps that fail now: `<execution>/<step>`. */
export const failing = new Set<string>();
/** Returns the name of the step and what it was given, or fails. */
export function work({ executionId, stepId, data }: { executionId: string; stepId: string; data: unknown }): string {
  if (failing.has(`${executionId}/${stepId}`)) throw new Error(`${stepId} is broken`);
  return `${stepId}(${typeof data === "string" ? data : "input"})`;
}

/** A step in one line: `path type status (parent) attempts`. An attempt that failed has a `!`, one without an end a `…`. */
export function toLine({ path, type, status, parent, attempts }: StepView): string {
  const all = attempts.map(({ attempt, endAt, error }) => `${attempt}${error ? "!" : ""}${endAt ? "" : "…"}`);
  return `${path} ${type} ${status}${parent ? ` in ${parent}` : ""} [${all.join(" ")}]`;
}
/** The line of a step, its input and its output. */
export const toRow = (step: StepView): unknown[] => [toLine(step), step.input, step.output];

/** The requests of one user about one workflow. */
export function createCalls(server: TestServer, workflowId: string, executionId: string) {
  const path = `/workflows/${workflowId}/executions/${executionId}`;
  return {
    path,
    execute: (input: unknown = {}, headers: Record<string, string> = {}) =>
      server.post(
        `/workflows/${workflowId}/execute`,
        { input, options: { executionId } },
        { headers: { ...as("ada").headers, ...headers } },
      ),
    post: (action: string, body: object = {}) => server.post(`${path}/${action}`, body, as("ada")),
    async steps(query = ""): Promise<StepView[]> {
      const { status, body } = await server.get(`${path}/steps${query}`, as("ada"));
      if (status !== 200) throw new Error(`${status} ${body.error}`);
      return body.data.items;
    },
  };
}
