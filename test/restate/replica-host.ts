// A replica as a process: node replica-host.ts <settings as JSON>. It prints its address, and a line for each step that starts.
import { existsSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineConfig, defineWorkflow } from "../../src/index.ts";
import { restate } from "../../src/backends/restate/define.ts";
import { toProject } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import type { ReplicaSettings } from "./replicas.ts";

const settings = JSON.parse(process.argv[2]!) as ReplicaSettings;
const { ingress, admin, name, port, url, stepMs, gate } = settings;

const report = (executionId: string, step: string): void => console.log(`step ${executionId} ${step} ${Date.now()}`);
const step = (id: string, end: () => Promise<unknown> = () => sleep(stepMs)) => ({
  id,
  execute: async ({ executionId }: { executionId: string }) => {
    report(executionId, id);
    await end();
    return id;
  },
});
const untilOpen = async (): Promise<void> => {
  while (!existsSync(gate)) await sleep(20);
};
const slow = defineWorkflow({ id: "slow" })
  .andThen(step("s1"))
  .andThen(step("s2"))
  .andThen(step("s3"))
  .andThen(step("s4"))
  .andThen(step("s5"));
/** Waits in its second step until the gate is open. */
const gated = defineWorkflow({ id: "gated" }).andThen(step("s1")).andThen(step("s2", untilOpen)).andThen(step("s3"));
/** Suspends in its first step until it is resumed. */
const ask = defineWorkflow({ id: "ask" })
  .andThen({
    id: "person",
    execute: ({ executionId, resumeData, suspend }) => {
      report(executionId, resumeData ? "resumed" : "person");
      return resumeData ?? suspend("Approve?");
    },
  })
  .andThen({ id: "finish", execute: ({ data }) => data });
const backend = restate({ ingress, admin, name, serve: { port, url } });
const limits = { runningExecutions: 1_000, queuedExecutions: 1_000 };
const config = defineConfig({ workflows: [slow, gated, ask], backend, server: { limits } });
const server = openServer(toProject(config), { mode: "start", logger: console as never });
const { url: address } = await server.listen({ port: 0 });
await server.fetch(new Request("http://localhost/doc"));
console.log(`ready ${address}`);
