import type { Answer } from "../harness/client.ts";
import { startServer, type TestServer } from "../harness/server.ts";

/** Runs the workflow `w` as the execution `e`, and returns the server with the answer and the state. */
export async function run(workflow: unknown, input: object = {}): Promise<Ran> {
  const server = await startServer("dev", { config: { workflows: [workflow as never] } });
  const answer = await server.post("/workflows/w/execute", { input, options: { executionId: "e" } });
  const state = (await server.get("/workflows/w/executions/e/state")).body.data;
  return { server, answer, state };
}

export interface Ran {
  readonly server: TestServer;
  readonly answer: Answer;
  readonly state: any;
}
