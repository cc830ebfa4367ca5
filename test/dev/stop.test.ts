import { expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { neverMs } from "../harness/patience.ts";
import { createProject } from "../harness/project.ts";

const workflow = `import { defineWorkflow } from "agentserve";
export const slow = defineWorkflow({ id: "slow" })
  .andThen({ id: "first", execute: () => console.log("first") })
  .andThen({ id: "wait", execute: async () => {
    console.log("waiting");
    if (!process.env.FAST) await new Promise(() => setInterval(() => {}, 1_000));
    return "done";
  } });
`;
const files = {
  "agents.config.ts": `export default { server: { cors: false, limits: { drainMs: ${neverMs} } } };\n`,
  "workflows/slow.ts": workflow,
};

it("dev does not wait at Ctrl+C for a step in flight, which runs again at the next start", async () => {
  const cwd = createProject(files);
  const first = agentserve(["dev", "--port", "0"], { cwd });
  const [base] = await first.waitFor(/http:\/\/\S+/);
  const body = JSON.stringify({ input: {}, options: { executionId: "one" } });
  const headers = { "content-type": "application/json" };
  const waiting = fetch(`${base}/workflows/slow/execute`, { method: "POST", body, headers });
  await first.waitFor(/waiting/);
  first.process.kill("SIGINT");
  expect((await first.ended).code).toBe(0); // the step would never end, nor the time that it has
  expect((await waiting).status).toBe(503);

  const second = agentserve(["dev", "--port", "0"], { cwd, env: { ...process.env, FAST: "1" } });
  const [again] = await second.waitFor(/http:\/\/\S+/);
  const state = async () => (await (await fetch(`${again}/workflows/slow/executions/one/state`)).json()).data;
  await expect.poll(state).toMatchObject({ status: "completed", result: "done" });
  expect(second.output().stdout).not.toContain("first\n");
});
