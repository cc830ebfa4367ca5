import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { agentserve, type Child } from "../../harness/cli.ts";
import { freePort } from "../../harness/free-port.ts";
import { createProject } from "../../harness/project.ts";
import { bySize } from "../../harness/size.ts";
import { startNginx } from "./start-nginx.ts";

const files = {
  "agents.config.ts": `export default { server: { cors: false } };\n`,
  "workflows/w.ts": `import { setTimeout } from "node:timers/promises";
import { defineWorkflow } from "agentserve";
export const quick = defineWorkflow({ id: "quick" }).andThen({ id: "s", execute: () => process.pid });
export const slow = defineWorkflow({ id: "slow" })
  .andThen({ id: "first", execute: () => setTimeout(150) })
  .andThen({ id: "second", execute: () => setTimeout(150, process.pid) });
`,
};

it("fails no request during rolling deploys of two processes on one file behind nginx", async () => {
  const folder = createProject(files);
  const ports = [await freePort(), await freePort()];
  const serve = (port: number): Child => agentserve(["start", "--port", String(port)], { cwd: folder });
  const statusOf = (port: number, path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`).then(
      ({ status }) => status,
      () => 0,
    );
  let current = serve(ports[0]!);
  await expect.poll(() => statusOf(ports[0]!, "/ready")).toBe(200);
  const url = await startNginx("upstream", ports);

  const headers = { "content-type": "application/json" };
  const probes = [
    () => fetch(`${url}/workflows`),
    () => fetch(`${url}/workflows/quick/execute`, { method: "POST", headers, body: `{"input":{}}` }),
    () => fetch(`${url}/workflows/slow/execute`, { method: "POST", headers, body: `{"input":{}}` }),
    () => fetch(`${url}/workflows/quick/executions?limit=1`),
  ];
  const failures: string[] = [];
  const answeredBy = new Set<number>();
  let count = 0;
  const over = new AbortController();
  async function probe(from: number): Promise<void> {
    for (let n = from; !over.signal.aborted; n++) {
      const answer = await probes[n % probes.length]!().catch((error: unknown) => error as Error);
      count++;
      if (answer instanceof Error) failures.push(`${n % 4}: ${String(answer.cause ?? answer)}`);
      else if (answer.status !== 200) failures.push(`${n % 4}: ${answer.status} ${await answer.text()}`);
      else {
        const { data } = (await answer.json()) as any;
        if (typeof data.result === "number") answeredBy.add(data.result);
        if (data.status !== undefined && data.status !== "completed") failures.push(JSON.stringify(data));
      }
      await sleep(10);
    }
  }
  const probing = Promise.all([0, 1, 2, 3].map(probe));

  const pids = [current.process.pid];
  const deploys = bySize(4, 25);
  for (let n = 1; n <= deploys; n++) {
    const port = ports[n % 2]!;
    const next = serve(port);
    await expect.poll(() => statusOf(port, "/health")).toBe(200); // its port is open, and requests wait
    current.process.kill("SIGTERM");
    await expect.poll(() => statusOf(port, "/ready")).toBe(200);
    expect((await current.ended).code).toBe(0);
    current = next;
    pids.push(next.process.pid);
    const before = count;
    await expect.poll(() => count).toBeGreaterThan(before + 10);
  }
  await expect.poll(() => count).toBeGreaterThan(200);
  over.abort();
  await probing;
  console.log(`${count} probes during ${deploys} deploys, answered by ${answeredBy.size} processes`);
  expect(failures).toEqual([]);
  expect([...answeredBy].toSorted()).toEqual(pids.toSorted());
});
