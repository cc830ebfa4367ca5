import { spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { expect, it } from "vitest";
import { agentserve, run, type Child } from "../../harness/cli.ts";
import { createProject } from "../../harness/project.ts";
import { bySize } from "../../harness/size.ts";

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

async function findPorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  for (const server of servers) server.close();
  return ports;
}

/** nginx in front of both ports, as docs/deployment.md has it. A port that refuses the connection is skipped. */
function startNginx(folder: string, port: number, [first = 0, second = 0]: readonly number[]): void {
  const [, block = ""] = /```nginx\n(upstream my_app [^]*?)```/.exec(readFileSync("docs/deployment.md", "utf8"))!;
  const documented = block
    .replace("127.0.0.1:3141", `127.0.0.1:${first}`)
    .replace("127.0.0.1:3142", `127.0.0.1:${second}`)
    .replace("server {\n", `server {\n  listen 127.0.0.1:${port};\n`);
  const prefix = join(folder, "nginx");
  mkdirSync(prefix);
  const paths = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${name};`);
  writeFileSync(
    join(prefix, "nginx.conf"),
    `daemon off; pid nginx.pid; error_log error.log; worker_processes 1;
events { worker_connections 256; }
http {
  access_log off;
  ${paths.join(" ")}
  ${documented}
}
`,
  );
  run("nginx", ["-p", prefix, "-c", join(prefix, "nginx.conf")]);
}

const hasNginx = spawnSync("nginx", ["-v"]).status === 0;
if (!hasNginx) console.log("skipped: nginx is not installed (apt-get install nginx)");

it.runIf(hasNginx)("rolling deploys of two processes on one file: no request fails", async () => {
  const folder = createProject(files);
  const [front = 0, ...ports] = await findPorts(3);
  const serve = (port: number): Child => agentserve(["start", "--port", String(port)], { cwd: folder });
  const statusOf = (port: number, path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`).then(
      ({ status }) => status,
      () => 0,
    );
  let current = serve(ports[0]!);
  await expect.poll(() => statusOf(ports[0]!, "/ready")).toBe(200);
  startNginx(folder, front, ports);
  await expect.poll(() => statusOf(front, "/ready")).toBe(200);

  const headers = { "content-type": "application/json" };
  const url = `http://127.0.0.1:${front}`;
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
