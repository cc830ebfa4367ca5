import { defineWorkflow } from "agentserve";
import { createGates } from "../harness/gates.ts";
import type { TestServer } from "../harness/server.ts";

/** The ways in which an execution of a test waits or has ended. */
export const ends = ["completed", "error", "person", "request", "cancelled", "running"] as const;
export type End = (typeof ends)[number];
export interface Known {
  readonly id: string;
  readonly workflowId: string;
  readonly userId: string | undefined;
  readonly end: End;
  readonly startAt: number;
}

export const gates = createGates();
const create = (id: string) =>
  defineWorkflow({ id }).andThen({
    id: "only",
    async execute({ input, suspend, resumeData, executionId }) {
      const { end } = input as { end: End }; // of `begin`
      if (end === "error") throw new Error("failed on purpose");
      if (end === "person" || end === "cancelled") return resumeData ?? suspend("Approve?");
      if (end !== "completed") await gates.pass(executionId);
      return { end };
    },
  });
export const workflows = ["alpha", "beta", "gamma"].map(create);

/** Starts an execution and leads it to its end. */
export async function begin(
  server: TestServer,
  { id, workflowId, end, ...options }: Omit<Known, "startAt">,
  headers: Record<string, string> = {},
): Promise<Known> {
  const path = `/workflows/${workflowId}/executions/${id}`;
  const body = { input: { end }, options: { executionId: id, ...(options.userId && { userId: options.userId }) } };
  const isOpen = end === "running" || end === "request";
  const prefer: Record<string, string> = isOpen ? { prefer: "respond-async" } : {};
  await server.post(`/workflows/${workflowId}/execute`, body, { headers: { ...headers, ...prefer } });
  if (isOpen) await gates.reached(id);
  if (end === "request") {
    await server.post(`${path}/suspend`, {}, { headers });
    gates.open(id);
  }
  if (end === "cancelled") await server.post(`${path}/cancel`, {}, { headers });
  const { data } = (await server.get(`${path}/state`, { headers })).body;
  return { id, workflowId, userId: options.userId, end, startAt: Date.parse(data.startAt) };
}

export const statusOf = (end: End): string =>
  end === "person" || end === "request" ? "suspended" : end === "cancelled" ? "error" : end;
export const kindOf = (end: End): string | undefined => (end === "person" || end === "request" ? end : undefined);
