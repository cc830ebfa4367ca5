// Replicas of one version are replaced one after the other by those of the next one, which changes two workflows.
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { eventually, until } from "../harness/waiting.ts";
import { freePort } from "./restate-server.ts";
import { startProxy } from "./turn-proxy.ts";

const host = join(import.meta.dirname, "deploy-host.ts");
const count = 10;
const indexes = Array.from({ length: count }, (_, index) => index);
const changed = "Workflow changed: step start is now where step first was";

interface Replica {
  readonly child: ChildProcess;
  readonly address: string;
}

/** The ids of the executions whose second step runs, whichever replica runs it. */
const started = new Set<string>();

async function startReplica(...args: string[]): Promise<Replica> {
  const child = spawn(process.execPath, [host, ...args], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  const ready = Promise.withResolvers<Replica>();
  child.once("exit", (code) => ready.reject(new Error(`A replica ended with ${code}`)));
  createInterface(child.stdout).on("line", (line) => {
    const [type, text = ""] = line.split(" ");
    if (type === "ready") ready.resolve({ child, address: text });
    if (type === "step") started.add(text);
  });
  return ready.promise;
}

async function request({ address }: Replica, path: string, body?: unknown): Promise<{ status: number; body: any }> {
  const headers = { "content-type": "application/json", prefer: "respond-async" };
  const init = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
  const response = await fetch(address + path, init);
  return { status: response.status, body: await response.json() };
}
const pathOf = (workflow: string, id: string): string => `/workflows/${workflow}/executions/${id}`;

async function settled(replica: Replica, workflow: string, id: string): Promise<any> {
  return eventually(async () => {
    const { body } = await request(replica, `${pathOf(workflow, id)}/state`);
    expect(body.data?.status, JSON.stringify(body)).toMatch(/^(suspended|completed|error)$/);
    return body.data;
  });
}

it(
  "20 suspended and 20 running executions continue, or give the documented answer",
  { timeout: 6 * patienceMs },
  async () => {
    const folder = mkdtempSync(join(tmpdir(), "agentserve-deploy-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const gate = join(folder, "open");
    const ports = [await freePort(), await freePort()];
    const url = await startProxy(ports);
    const name = `deploy-${randomUUID()}`;
    const start = (port: number, version: number): Promise<Replica> =>
      startReplica(name, String(port), url, String(version), gate);

    const replicas = await Promise.all(ports.map((port) => start(port, 1)));
    const all = ["later", "begun"].flatMap((workflow) =>
      indexes.flatMap((n) =>
        [`suspended-${workflow}-${n}`, `running-${workflow}-${n}`].map((id) => ({ workflow, id })),
      ),
    );
    await Promise.all(
      all.map(async ({ workflow, id }, index) => {
        const body = { input: {}, options: { executionId: id } };
        expect((await request(replicas[index % 2]!, `/workflows/${workflow}/execute`, body)).status).toBe(202);
      }),
    );
    const running = all.filter(({ id }) => id.startsWith("running")).map(({ id }) => id);
    await until(() => running.every((id) => started.has(id)), "the steps to run");
    for (const { workflow, id } of all.filter((one) => one.id.startsWith("suspended")))
      expect(await settled(replicas[0]!, workflow, id)).toMatchObject({ status: "suspended" });

    for (const [index, port] of ports.entries()) {
      const { child } = replicas[index]!;
      const ended = once(child, "exit");
      child.kill("SIGTERM");
      await ended;
      replicas[index] = await start(port, 2);
    }
    writeFileSync(gate, "");

    const [first, second] = replicas as [Replica, Replica];
    for (const n of indexes) {
      const replica = n % 2 === 0 ? first : second;
      const id = (kind: string): string => `${kind}-${n}`;
      expect(await settled(replica, "later", id("running-later"))).toMatchObject({
        status: "completed",
        result: "first final",
      });
      expect(await settled(replica, "begun", id("running-begun"))).toMatchObject({
        status: "suspended",
        suspension: { kind: "system", reason: changed, stepId: "middle" },
      });
      for (const kind of ["running-begun", "suspended-begun"]) {
        const refused = await request(replica, `${pathOf("begun", id(kind))}/resume`, { resumeData: 1 });
        expect([refused.status, refused.body.error], id(kind)).toEqual([409, changed]);
      }
      const path = pathOf("later", id("suspended-later"));
      expect((await request(replica, `${path}/resume`, { resumeData: 1 })).status).toBe(202);
      expect(await settled(replica, "later", id("suspended-later"))).toMatchObject({
        status: "completed",
        result: "first final",
      });
    }
  },
);
