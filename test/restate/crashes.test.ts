// A step that ends its process each time it runs must not take down one replica after another for ever.
import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { describe, expect, it, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { eventually, until } from "../harness/waiting.ts";
import { freePort } from "./restate-server.ts";
import { startProxy } from "./turn-proxy.ts";

const host = join(import.meta.dirname, "crash-host.ts");
const timeout = 4 * patienceMs;

/** Two replicas. One that dies is started again on the same port. */
class Replicas {
  deaths = 0;
  readonly #folder = mkdtempSync(join(tmpdir(), "agentserve-crashing-"));
  readonly #name = `crash-${randomUUID()}`;
  readonly #running = new Map<number, { child: ChildProcess; address?: string }>();
  #url = "";
  #isOver = false;

  async start(): Promise<void> {
    onTestFinished(() => this.#end());
    const ports = [await freePort(), await freePort()];
    this.#url = await startProxy(ports);
    for (const port of ports) this.#run(port);
    await until(() => [...this.#running.values()].every(({ address }) => address), "the replicas to listen");
  }

  #run(port: number): void {
    const args = [host, this.#name, String(port), this.#url, this.#folder];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
    const entry: { child: ChildProcess; address?: string } = { child };
    this.#running.set(port, entry);
    createInterface(child.stdout!).on("line", (line) => {
      if (line.startsWith("ready ")) entry.address = line.slice("ready ".length);
    });
    child.once("exit", () => {
      this.deaths++;
      if (!this.#isOver) this.#run(port);
    });
  }

  /** Ends one replica after the other by a signal, and waits until each is back. */
  async shutDown(): Promise<void> {
    for (const [port, { child }] of this.#running) {
      child.kill("SIGTERM");
      const isBack = (): boolean => {
        const now = this.#running.get(port)!;
        return now.child !== child && now.address !== undefined;
      };
      await until(isBack, "the replica to be back");
    }
  }

  /** Sends a request to a replica that lives. */
  async request(path: string, body?: unknown): Promise<{ status: number; body: any }> {
    const headers = { "content-type": "application/json", prefer: "respond-async" };
    const init = body === undefined ? {} : { method: "POST", headers, body: JSON.stringify(body) };
    return eventually(async () => {
      const { address } = [...this.#running.values()].find((one) => one.address && one.child.exitCode === null)!;
      const response = await fetch(`${address}${path}`, init);
      if (response.status >= 500) throw new Error(`${response.status} ${await response.text()}`);
      return { status: response.status, body: await response.json() };
    });
  }
  begin(workflow: string, executionId: string): Promise<unknown> {
    return this.request(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
  }
  /** The state of an execution that no longer runs. */
  async settled(workflow: string, id: string): Promise<unknown> {
    return eventually(async () => {
      const { body } = await this.request(`/workflows/${workflow}/executions/${id}/state`);
      if (body.data.status === "running") throw new Error(`${id} is running`);
      return body.data;
    });
  }

  cure(): void {
    writeFileSync(join(this.#folder, "cured"), "");
  }
  ran(): string[] {
    const file = join(this.#folder, "ran");
    return existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
  }
  timesRan(key: string): number {
    return this.ran().filter((one) => one === key).length;
  }

  #end(): void {
    this.#isOver = true;
    for (const { child } of this.#running.values()) child.kill("SIGKILL");
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

async function startReplicas(): Promise<Replicas> {
  const replicas = new Replicas();
  await replicas.start();
  return replicas;
}

describe("a step that ends the process of its replica", () => {
  it.each(["exits", "aborts"])(
    "is suspended after the third crash, and everything beside it completes (%s)",
    { timeout },
    async (deadly) => {
      const replicas = await startReplicas();
      const beside = ["b1", "b2", "b3", "b4"];
      await Promise.all(beside.map((id) => replicas.begin("slow", id)));
      await until(() => beside.every((id) => replicas.timesRan(`${id}/second`) > 0), "the others to run");
      await replicas.begin(deadly, "p").catch(() => {}); // its replica may die before it answers
      expect(await replicas.settled(deadly, "p")).toMatchObject({
        status: "suspended",
        suspension: { kind: "system", reason: "Interrupted 3 times by a crash", stepId: "deadly" },
      });
      expect([replicas.timesRan("p/before"), replicas.timesRan("p/deadly")]).toEqual([1, 3]);
      for (const id of beside) {
        expect(await replicas.settled("slow", id), id).toMatchObject({ status: "completed", result: "made it" });
        expect(replicas.timesRan(`${id}/first`), `${id}: a recorded step runs once`).toBe(1);
      }
      replicas.cure();
      await replicas.request(`/workflows/${deadly}/executions/p/resume`, {});
      expect(await replicas.settled(deadly, "p")).toMatchObject({ status: "completed", result: "survived" });
      expect([replicas.timesRan("p/before"), replicas.timesRan("p/deadly"), replicas.deaths]).toEqual([1, 4, 3]);
    },
  );

  it("is forgotten by the count once it has made progress", { timeout }, async () => {
    const replicas = await startReplicas();
    await replicas.begin("progressing", "p").catch(() => {});
    expect(await replicas.settled("progressing", "p")).toMatchObject({ status: "completed", result: "done" });
    expect(replicas.ran()).toEqual([1, 2, 3, 4, 5].flatMap((n) => [`p/s${n}`, `p/s${n}`]));
  });

  it("does not count the shutdown of a replica", { timeout }, async () => {
    const replicas = await startReplicas();
    await replicas.begin("hanging", "h");
    for (let times = 1; times <= 3; times++) {
      const before = replicas.timesRan("h/hangs");
      await replicas.shutDown(); // both, so the one that drives
      await until(() => replicas.timesRan("h/hangs") > before, "the step to run again");
    }
    replicas.cure();
    expect(await replicas.settled("hanging", "h")).toMatchObject({ status: "completed", result: "survived" });
  });
});
