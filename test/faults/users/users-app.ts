// Steps that hang in the first life, and return their context in the next one. A token is the id of its user. The server
// begins the execution "s".
import { defineWorkflow } from "../../../src/index.ts";
import { serveOnFile } from "../agents/agent-app.ts";

export interface UsersLine {
  readonly execution: string;
  /** The ids of the executions that the step sees. */
  readonly seen: readonly string[];
  readonly life: number;
}

export default serveOnFile<UsersLine>(({ life, tell }) => {
  const whose = defineWorkflow({ id: "whose" }).andThen({
    id: "step",
    async execute({ context, executionId, runtime }) {
      const { items } = await runtime.executions.list();
      tell({ execution: executionId, seen: items.map((item) => item.executionId).toSorted() });
      return life === 1 ? new Promise<never>(() => {}) : Object.fromEntries(context);
    },
  });
  return {
    workflows: [whose],
    auth: { type: "ids", ownership: true, verifyToken: (id) => ({ id }) },
    configureApp(app, { runtime }) {
      app.post("/begin", async () => (await runtime.start(whose, {}, { executionId: "s" })).state());
    },
  };
});
