import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { agentserve } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { post } from "./call/stage.ts";

const files = {
  "agents.config.ts": `import { defineConfig } from "agentserve";\nsetInterval(() => {}, 1e6);\nexport default defineConfig({});\n`,
  "workflows/w.ts": `import { appendFileSync } from "node:fs";
import { defineWorkflow } from "agentserve";
export const w = defineWorkflow({ id: "w" }).andThen({
  id: "a",
  execute: async () => {
    appendFileSync(process.env.RAN!, "ran\\n");
    await new Promise(() => setInterval(() => {}, 1e6));
  },
});
`,
};

it("start serves although a step that it continues leaves a rejected promise", async () => {
  const step = (what: string): string => `import { defineWorkflow } from "agentserve";
export const it = defineWorkflow({ id: "${what}", recovery: "${what === "fails" ? "fail" : "resume"}" }).andThen({
  id: "a",
  execute: async () => {
    void Promise.reject(new Error("forgotten"));
    await new Promise(() => setInterval(() => {}, 1e6));
  },
});
`;
  const cwd = createProject({
    "agents.config.ts": files["agents.config.ts"],
    "workflows/a.ts": step("fails"),
    "workflows/b.ts": step("goes-on"),
  });
  const serve = async () => {
    const child = agentserve(["start", "--port", "0"], { cwd });
    return { child, url: (await child.waitFor(/http:\/\/\S+?:\d+/))[0] };
  };
  const first = await serve();
  for (const id of ["fails", "goes-on"]) {
    await post(`${first.url}/workflows/${id}/execute`, { input: {} }, { prefer: "respond-async" });
  }
  first.child.process.kill("SIGKILL");
  await first.child.ended;
  const second = await serve();
  expect((await fetch(`${second.url}/workflows`)).status).toBe(200);
});

it.each(["a risky default", "a taken port"])("start runs nothing and ends if it is refused for %s", async (reason) => {
  const cwd = createProject(files);
  const env = { ...process.env, RAN: join(cwd, "ran.txt") };
  const first = agentserve(["start", "--port", "0"], { cwd, env });
  const [url] = await first.waitFor(/http:\/\/\S+?:\d+/);
  await post(`${url}/workflows/w/execute`, { input: {} }, { prefer: "respond-async" });
  await expect.poll(() => readFileSync(env.RAN, { encoding: "utf8", flag: "a+" })).toBe("ran\n");
  first.process.kill("SIGKILL");
  await first.ended;

  const taken = createServer().listen(0, "127.0.0.1");
  onTestFinished(() => void taken.close());
  await once(taken, "listening");
  const { port } = taken.address() as AddressInfo;
  const args = reason === "a taken port" ? ["--port", String(port)] : ["--port", "0", "--strict"];
  const second = await agentserve(["start", ...args], { cwd, env }).ended;
  expect([second.code, second.stdout]).toEqual([1, ""]);
  expect(second.stderr).toMatch(reason === "a taken port" ? /is already in use/ : /Pages of any origin/);
  expect(readFileSync(env.RAN, "utf8")).toBe("ran\n");

  const third = agentserve(["start", "--port", "0"], { cwd, env });
  await third.waitFor(/ready in/);
  await expect.poll(() => readFileSync(env.RAN, "utf8")).toBe("ran\nran\n");
});
