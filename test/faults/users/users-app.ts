// A step that hangs in the first life, and returns its context in the next one. A token is the id of its user.
import { defineWorkflow } from "../../../src/index.ts";
import { serveOnFile } from "../agents/agent-app.ts";

export default serveOnFile<{ what: string }>(({ life, tell }) => {
  const whose = defineWorkflow({ id: "whose" }).andThen({
    id: "step",
    execute({ context }) {
      tell({ what: "step" });
      return life === 1 ? new Promise<never>(() => {}) : Object.fromEntries(context);
    },
  });
  return { workflows: [whose], auth: { type: "ids", ownership: true, verifyToken: (id) => ({ id }) } };
});
