import { expect, it } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { freePort } from "../harness/free-port.ts";
import { createProject } from "../harness/project.ts";

const files = {
  "agents.config.ts": `export default { server: { cors: false } };\n`,
  "workflows/w.ts": `import { defineWorkflow } from "agentserve";
export const w = defineWorkflow({ id: "w" }).andThen({ id: "s", execute: () => process.pid });
`,
};
const headers = { "content-type": "application/json" };
const execute = (url: string) =>
  fetch(`${url}/workflows/w/execute`, { method: "POST", headers, body: JSON.stringify({ input: {} }) });

it("a server that waits for the store has its port open: requests wait, and are answered when it has the store", async () => {
  const cwd = createProject(files);
  const first = agentserve(["start", "--port", "0"], { cwd });
  const [url] = await first.waitFor(/http:\/\/\S+:\d+/);
  const port = await freePort();
  const next = `http://127.0.0.1:${port}`;
  const second = agentserve(["start", "--port", String(port)], { cwd });
  const statusOf = (path: string) =>
    fetch(next + path).then(
      ({ status }) => status,
      () => 0,
    );
  await expect.poll(() => statusOf("/health")).toBe(200);
  expect(await statusOf("/ready")).toBe(503);
  let isAnswered = false;
  const waiting = execute(next).finally(() => (isAnswered = true));
  expect(((await (await execute(url)).json()) as any).data.result).toBe(first.process.pid);
  expect(isAnswered).toBe(false);
  first.process.kill("SIGTERM");
  expect((await first.ended).code).toBe(0);
  const answer = await waiting;
  expect({ status: answer.status, by: ((await answer.json()) as any).data.result }).toEqual({
    status: 200,
    by: second.process.pid,
  });
  await expect.poll(() => statusOf("/ready")).toBe(200);
});

it("requests to a server that waits for the store get 503 if it stays in use", async () => {
  const cwd = createProject(files);
  const first = agentserve(["start", "--port", "0"], { cwd });
  await first.waitFor(/http:\/\/\S+:\d+/);
  const port = await freePort();
  const second = agentserve(["start", "--port", String(port)], { cwd });
  const next = `http://127.0.0.1:${port}`;
  await expect
    .poll(() =>
      fetch(`${next}/health`).then(
        ({ status }) => status,
        () => 0,
      ),
    )
    .toBe(200);
  const answer = await execute(next);
  expect(answer.status).toBe(503);
  expect(answer.headers.get("retry-after")).toBe("1");
  expect(await answer.json()).toEqual({ success: false, error: "The server is starting" });
  const { code, stderr } = await second.ended;
  expect(code).toBe(1);
  expect(stderr).toContain(`is in use by another process (pid ${first.process.pid}, `);
});
