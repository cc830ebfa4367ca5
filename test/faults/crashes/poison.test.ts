// A step that ends its process each time it runs must not take the server down for good.
import { createConnection } from "node:net";
import { once } from "node:events";
import { describe, expect, it, type TestContext } from "vitest";
import { eventually, until, within } from "../../harness/waiting.ts";
import { config, createCrashing, type Crashing, type Death } from "./crashing.ts";

const reason = "Interrupted 3 times by a crash";
const beside = ["beside.1", "beside.2", "beside.3"];
const async = { headers: { prefer: "respond-async" } };
const timeout = 300_000;

/** The last thing that the step does. */
const poisons = {
  "calls process.exit(1)": { last: "process.exit(1);", isDeath: ({ code }: Death) => code === 1, kill: false },
  "calls process.abort()": {
    last: "process.abort();",
    isDeath: ({ signal }: Death) => signal === "SIGABRT",
    kill: false,
  },
  "blocks the event loop for good": {
    last: "for (;;);",
    isDeath: ({ signal }: Death) => signal === "SIGKILL",
    kill: true,
  },
};

/**
 * `before` has a recorded step, `poison` the deadly one. The step of `beside` takes longer than the poison, so that it is in
 * flight at a crash.
 */
const workflows = (last: string): string => `import { appendFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { defineWorkflow } from "agentserve";
const note = ({ idempotencyKey }) => appendFileSync("ran.txt", idempotencyKey + "\\n");
export const poison = defineWorkflow({ id: "poison" })
  .andThen({ id: "before", execute: note })
  .andThen({ id: "deadly", async execute(context) {
    note(context);
    ${last}
    return "survived";
  } });
export const beside = defineWorkflow({ id: "beside" })
  .andThen({ id: "first", execute: note })
  .andThen({ id: "slow", async execute(context) {
    note(context);
    await sleep(300);
    return "made it";
  } });
`;
const pathOf = (id: string): string => `/workflows/${id.split(".")[0]}/executions/${id}`;
const countOf = (project: Crashing, line: string): number => project.ran().filter((one) => one === line).length;
const deadly = "poison.p/deadly";

function createPoisoned(test: TestContext, last: string): Crashing {
  return createCrashing(test, { "agents.config.ts": config, "workflows/all.ts": workflows(last) });
}

/** The first life: executions beside the poison are in flight when it runs. */
async function beginAll(project: Crashing): Promise<Awaited<ReturnType<Crashing["start"]>>> {
  const life = await project.start();
  for (const id of beside) {
    const body = { input: {}, options: { executionId: id } };
    expect((await life.post("/workflows/beside/execute", body, async)).status).toBe(202);
    await until(() => project.ran().includes(`${id}/slow`), `${id} to run`);
  }
  // The process may die before it has answered.
  const headers = { "content-type": "application/json", ...async.headers };
  const body = JSON.stringify({ input: {}, options: { executionId: "poison.p" } });
  fetch(`${life.url}/workflows/poison/execute`, { method: "POST", headers, body }).catch(() => {});
  await until(() => project.ran().includes(deadly), "the poison to run");
  return life;
}

describe.concurrent("a step that ends the process", () => {
  it.for(Object.entries(poisons))(
    "suspends a step after the third crash when it %s, and completes everything beside it",
    { timeout },
    async ([name, { last, isDeath, kill }], test) => {
      const project = createPoisoned(test, last);
      const first = await beginAll(project);
      const death = await (kill ? first.end("SIGKILL") : within(first.ended, "the first crash"));
      expect(isDeath(death), `${name}: ${JSON.stringify(death)}`).toBe(true);
      for (const crash of [2, 3]) {
        // Each start listens, though a recovered step is deadly.
        const life = await project.spawn();
        await until(() => countOf(project, deadly) === crash, `the poison to run in life ${crash}`);
        const end = await (kill ? life.end("SIGKILL") : within(life.ended, `crash ${crash}`));
        expect(isDeath(end), `${name}, life ${crash}: ${JSON.stringify(end)}`).toBe(true);
      }

      const fourth = await project.start();
      const state = await eventually(async () => {
        const { body } = await fourth.get(`${pathOf("poison.p")}/state`);
        expect(body.data.status).not.toBe("running");
        return body.data;
      });
      expect(state).toMatchObject({ status: "suspended", suspension: { reason, stepId: "deadly" } });
      for (const id of beside) {
        const ended = await eventually(async () => {
          const { body } = await fourth.get(`${pathOf(id)}/state`);
          expect(body.data.status, id).not.toBe("running");
          return body.data;
        });
        expect(ended, id).toMatchObject({ status: "completed", result: "made it" });
        expect(countOf(project, `${id}/first`), `${id} runs a recorded step once`).toBe(1);
      }
      expect(countOf(project, deadly)).toBe(3);
      // The server is well: it begins and completes other executions.
      const more = await fourth.post("/workflows/beside/execute", { input: {} });
      expect(more.body.data).toMatchObject({ status: "completed", result: "made it" });

      if (name.includes("abort")) {
        const cancelled = await fourth.post(`${pathOf("poison.p")}/cancel`, { reason: "poison" });
        expect([cancelled.status, cancelled.body.data.status]).toEqual([200, "error"]);
        await fourth.end("SIGTERM");
        const fifth = await project.start();
        const { body } = await fifth.get(`${pathOf("poison.p")}/state`);
        expect(body.data).toMatchObject({ status: "error", cancellation: { reason: "poison" } });
        expect(countOf(project, deadly), "a cancelled step runs no more").toBe(3);
        return;
      }
      await fourth.end("SIGTERM");
      project.write("workflows/all.ts", workflows(""));
      const fifth = await project.start();
      expect((await fifth.get(`${pathOf("poison.p")}/state`)).body.data).toMatchObject({
        status: "suspended",
        suspension: { reason },
      });
      const resumed = await fifth.post(`${pathOf("poison.p")}/resume`, {});
      expect(resumed.body.data).toMatchObject({ status: "completed", result: "survived" });
      expect(countOf(project, "poison.p/before"), "a recorded step runs once").toBe(1);
      expect(countOf(project, deadly)).toBe(4);
    },
  );

  it("forgets the crashes of an execution once it has made progress", { timeout }, async (test) => {
    // Every step ends the process when it first runs: each life records one more of the five.
    const steps = Array.from({ length: 5 }, (_, index) => `.andThen({ id: "s${index}", execute: step })`).join("");
    const project = createCrashing(test, {
      "agents.config.ts": config,
      "workflows/all.ts": `import { appendFileSync, existsSync, writeFileSync } from "node:fs";
import { defineWorkflow } from "agentserve";
function step({ idempotencyKey, stepId }) {
  appendFileSync("ran.txt", idempotencyKey + "\\n");
  if (existsSync(stepId)) return "done";
  writeFileSync(stepId, "");
  process.exit(1);
}
export const poison = defineWorkflow({ id: "poison" })${steps};
`,
    });
    const first = await project.start();
    const headers = { "content-type": "application/json", ...async.headers };
    const body = JSON.stringify({ input: {}, options: { executionId: "poison.p" } });
    fetch(`${first.url}/workflows/poison/execute`, { method: "POST", headers, body }).catch(() => {});
    await within(first.ended, "the first crash");
    for (const crash of [2, 3, 4, 5]) await within((await project.spawn()).ended, `crash ${crash}`);
    const last = await project.start();
    const state = await eventually(async () => {
      const { body: found } = await last.get(`${pathOf("poison.p")}/state`);
      expect(found.data.status).not.toBe("running");
      return found.data;
    });
    expect(state).toMatchObject({ status: "completed", result: "done" });
    const twice = Array.from({ length: 5 }, (_, index) => [`poison.p/s${index}`, `poison.p/s${index}`]).flat();
    expect(project.ran()).toEqual(twice);
  });
});

describe("a recovered step that blocks the event loop for good", () => {
  // Nothing answers while the loop is blocked. What can be demanded: when the step begins, the port is open, its URL is
  // printed, and the system accepts connections, so that a client waits instead of being refused.
  it("opens the port though a recovered step blocks the event loop for good", { timeout }, async (test) => {
    const project = createPoisoned(test, "for (;;);");
    const first = await beginAll(project);
    await first.end("SIGKILL");
    const second = await project.spawn();
    await until(() => countOf(project, deadly) === 2, "the recovered step to run");
    const socket = createConnection(Number(new URL(second.url).port), "127.0.0.1");
    test.onTestFinished(() => void socket.destroy());
    await within(once(socket, "connect"), "the connection to be accepted");
  });
});
