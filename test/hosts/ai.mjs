// The server of the tests in this folder. It replaces `ai.ts` of docs/embedding.md.
import { createServer, defineAgent, defineWorkflow, embedded } from "agentserve";
import { scriptedModel } from "agentserve/models";

const gate = Promise.withResolvers();
const gated = defineWorkflow({ id: "gated" })
  .andThen({ id: "first", execute: () => 1 })
  .andThen({ id: "wait", execute: () => gate.promise.then(() => "opened") });
const approval = defineWorkflow({ id: "approval" }).andThen({
  id: "decide",
  execute: ({ suspend, resumeData }) => resumeData ?? suspend("Well?"),
});

let aborted = 0;
/** Says one word, and then nothing until its caller leaves. */
async function* speak({ abortSignal }) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "1" };
  yield { type: "text-delta", id: "1", delta: "one" };
  await new Promise((resolve) => abortSignal.addEventListener("abort", resolve));
  aborted++;
}
const endless = defineAgent({ id: "endless", instructions: "Speak.", model: scriptedModel([speak, speak]) });

const create = () =>
  createServer({
    agents: [endless],
    workflows: [gated, approval],
    backend: embedded({ path: process.env.DATA }),
    server: process.env.BASE_PATH ? { basePath: process.env.BASE_PATH } : {},
    configureApp(app) {
      app.get("/aborted", () => ({ aborted }));
      app.post("/open", () => (gate.resolve(), { opened: true }));
      app.get("/fails", () => {
        throw new Error("a detail of the host");
      });
      app.get("/own", () => new Response("own", { headers: { "x-own": "1" } }));
    },
  });

export const ai = (globalThis.ai ??= create());
