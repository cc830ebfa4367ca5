import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { connect, createServer, type AddressInfo, type Server } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, it } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { freePort } from "./restate-server.ts";

const listen = (server: Server): Promise<number> =>
  new Promise((resolve) => server.listen(0, "127.0.0.1", () => resolve((server.address() as AddressInfo).port)));

/** A proxy that hands each connection to the next replica that accepts it. */
function createProxy(ports: number[]): Server {
  let turn = 0;
  return createServer((socket) => {
    const open = (tries: number): void => {
      if (tries === 0) return void socket.destroy();
      const upstream = connect(ports[turn++ % ports.length]!, "127.0.0.1");
      let isOpen = false;
      upstream.once("connect", () => {
        isOpen = true;
        socket.pipe(upstream).pipe(socket);
      });
      upstream.on("error", () => (isOpen ? socket.destroy() : open(tries - 1)));
      upstream.on("close", () => isOpen && socket.destroy());
      socket.on("error", () => upstream.destroy());
      socket.on("close", () => upstream.destroy());
    };
    open(ports.length);
  });
}

interface Replica {
  readonly child: ChildProcess;
  readonly address: string;
  readonly steps: { id: string; step: string; at: number }[];
}
function startReplica(name: string, port: number, url: string): Promise<Replica> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "replica-host.ts"), name, String(port), url]);
  const steps: Replica["steps"] = [];
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  return new Promise((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors.slice(0, 2000)}`)));
    createInterface(child.stdout).on("line", (line) => {
      const [type, id = "", step = "", at] = line.split(" ");
      if (type === "ready") resolve({ child, address: id, steps });
      if (type === "step") steps.push({ id, step, at: Number(at) });
    });
  });
}
it("SIGKILL of a replica: its executions complete on the other", { timeout: 2 * patienceMs }, async () => {
  const count = 20;
  const ports = [await freePort(), await freePort()];
  const proxy = createProxy(ports);
  const url = `http://127.0.0.1:${await listen(proxy)}`;
  const name = `kill-${randomUUID()}`;
  const replicas = await Promise.all(ports.map((port) => startReplica(name, port, url)));
  try {
    const execute = async (index: number): Promise<string> => {
      const body = JSON.stringify({ input: {}, options: { executionId: `k${index}` } });
      const headers = { "content-type": "application/json" };
      const response = await fetch(`${survivor.address}/workflows/slow/execute`, { method: "POST", headers, body });
      const answer = (await response.json()) as { data?: { status: string } };
      return `${response.status} ${answer.data?.status}`;
    };
    // The replica that drives is killed, and all calls wait on the other one.
    const [first, second] = replicas as [Replica, Replica];
    let survivor = first;
    const probe = await execute(0);
    expect(probe).toBe("200 completed");
    const victim = first.steps.length > 0 ? first : second;
    survivor = victim === first ? second : first;
    const waiting = Promise.all(Array.from({ length: count }, (_, index) => execute(index + 1)));
    await expect
      .poll(() => victim.steps.length + survivor.steps.length, { timeout: patienceMs })
      .toBeGreaterThan(count);
    const killedAt = Date.now();
    const before = survivor.steps.length;
    victim.child.removeAllListeners("exit");
    victim.child.kill("SIGKILL");
    const answers = await waiting;
    expect(answers).toEqual(Array.from({ length: count }, () => "200 completed"));
    const all = [...victim.steps, ...survivor.steps].filter(({ id }) => id !== "k0");
    const runs = new Map<string, number>();
    for (const { id, step } of all) runs.set(`${id} ${step}`, (runs.get(`${id} ${step}`) ?? 0) + 1);
    // Only executions that the victim drove: the survivor has its own beside them.
    const moved = new Set(victim.steps.map(({ id }) => id));
    const taken = survivor.steps.slice(before).filter(({ id }) => moved.has(id));
    const firsts = [...moved].map((id) => taken.find((one) => one.id === id)).filter((one) => one !== undefined);
    const delays = firsts.map(({ at }) => at - killedAt);
    console.log("KILL", {
      moved: firsts.length,
      minMs: Math.min(...delays),
      maxMs: Math.max(...delays),
      twice: [...runs.values()].filter((n) => n === 2).length,
      more: [...runs.values()].filter((n) => n > 2).length,
    });
    expect(firsts.length).toBeGreaterThan(0); // the victim drove something
    expect(runs.size).toBe(count * 4);
    expect(Math.max(...runs.values())).toBeLessThanOrEqual(2);
  } finally {
    for (const { child } of replicas) child.removeAllListeners("exit").kill("SIGKILL");
    proxy.close();
  }
});
