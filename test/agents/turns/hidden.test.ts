import { defineWorkflow } from "agentserve";
import { expect, it } from "vitest";
import { inspect } from "../../../src/backends/embedded/file/inspect.ts";
import { agentserve } from "../../harness/cli.ts";
import { createGates } from "../../harness/gates.ts";
import { createProject } from "../../harness/project.ts";
import { eventually } from "../../harness/waiting.ts";
import { newFile, query } from "../../workflows/waits/serve.ts";
import { held, live } from "./lives.ts";

it("shows a turn in no list and under no id, counts it nowhere and logs no execution", async () => {
  const file = newFile();
  const slow = held("answer");
  const { server, begin, ask } = await live(file, { script: [slow.step, "next"] });
  await begin("one");
  await slow.reached;
  const [{ id } = { id: "" }] = query<{ id: string }>(file, "select id from executions");
  const turns = `/workflows/${encodeURIComponent("@turn/a")}`;
  for (const path of ["/executions", "/executions?status=running", `/executions?idPrefix=${id}`])
    expect((await server.get(path)).body.data.items, path).toEqual([]);
  for (const path of [`${turns}/executions`, `${turns}/executions/${id}/state`, `${turns}/executions/${id}/steps`])
    expect(await server.get(path), path).toMatchObject({ status: 404 });
  expect(await server.post(`${turns}/executions/${id}/cancel`, {})).toMatchObject({ status: 404 });
  expect(JSON.stringify((await server.get("/workflows")).body)).not.toContain("@turn");
  expect(await (await server.send("/metrics", {})).text()).not.toContain("@turn");
  slow.open();
  expect(await ask("two")).toMatchObject({ status: 200 });
  await eventually(() => expect(query(file, "select id from executions")).toEqual([]));
  expect(await (await server.send("/metrics", {})).text()).not.toContain("@turn");
  expect([...server.logs, ...server.activity].filter(({ message }) => message.startsWith("Execution"))).toEqual([]);
});

it("a turn is not on the stream of executions", async () => {
  const workflow = defineWorkflow({ id: "w" }).andThen({ id: "end", execute: () => "done" });
  const { server, ask } = await live(newFile(), { script: ["answer"], workflows: [workflow] });
  const leaving = new AbortController();
  const response = await server.send("/executions/stream", { signal: leaving.signal });
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  expect((await reader.read()).value).toMatch(/^:/); // from here on, it misses nothing
  expect(await ask("one")).toMatchObject({ status: 200 });
  await server.post("/workflows/w/execute", { input: {} });
  let text = "";
  while (!text.includes('"completed"')) text += (await reader.read()).value;
  expect([...text.matchAll(/"workflowId":"(.*?)"/g)].map(([, id]) => id)).toEqual(["w", "w"]);
  leaving.abort();
});

it("counts no turn that a process has left as an execution", async () => {
  const file = newFile();
  const never = held("never");
  const { begin, close } = await live(file, { script: [never.step] });
  await begin("one");
  await never.reached;
  await close();
  expect(query(file, "select status from executions")).toEqual([{ status: "running" }]);
  expect((await inspect(file)).executions).toEqual({});
  const [{ id } = { id: "" }] = query<{ id: string }>(file, "select id from executions");
  const cwd = createProject({
    "agents.config.ts": `import { defineConfig, embedded } from "agentserve";
export default defineConfig({ backend: embedded({ path: ${JSON.stringify(file)} }) });`,
  });
  const runs = (...args: string[]) => agentserve(["runs", ...args, "--data", file], { cwd }).ended;
  expect(await runs("list", "--json")).toMatchObject({ code: 0, stdout: "[]\n" });
  for (const args of [
    ["show", id],
    ["cancel", id],
  ]) {
    const { code, stdout, stderr } = await runs(...args);
    expect([code, stdout, stderr], args[0]).toEqual([1, "", expect.stringContaining("not found")]);
  }
  const { stdout } = await agentserve(["doctor"], { cwd }).ended;
  expect(stdout).toContain(file);
  expect(stdout).not.toMatch(/\d (running|execution)/);
});

it("a turn takes no slot", async () => {
  const gates = createGates();
  const waits = defineWorkflow({ id: "waits" }).andThen({ id: "wait", execute: () => gates.pass("step") });
  const ends = defineWorkflow({ id: "ends" }).andThen({ id: "end", execute: () => "done" });
  const slow = held("answer of two");
  const { server, ask, begin } = await live(newFile(), {
    script: ["answer of one", slow.step],
    workflows: [waits, ends],
    server: { limits: { runningExecutions: 1 } },
  });
  const running = server.post("/workflows/waits/execute", { input: {} });
  await gates.reached("step");
  expect(await ask("one")).toMatchObject({ status: 200 });
  gates.open("step");
  await running;
  await begin("two");
  await slow.reached;
  expect(await server.post("/workflows/ends/execute", { input: {} })).toMatchObject({ status: 200 });
  slow.open();
});
