import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { until } from "../harness/waiting.ts";
import { PortProxy } from "./port-proxy.ts";
import { freePort } from "./restate-server.ts";

/** The settings of `replica-host.ts`. */
export interface ReplicaSettings {
  readonly name: string;
  readonly port: number;
  readonly url: string;
  readonly ingress: readonly string[];
  readonly admin: string;
  readonly stepMs: number;
  /** The file that opens the gate of the workflow `gated`. */
  readonly gate: string;
  /** The interval of the schedule `each`. @default there is no schedule */
  readonly every?: string | undefined;
}

/** A step that has started on a replica, and when. */
export interface StartedStep {
  readonly id: string;
  readonly step: string;
  readonly at: number;
}

/** A replica as a process. */
export class Replica {
  readonly child: ChildProcess;
  readonly address: string;
  /** Its Restate port. */
  readonly port: number;
  readonly steps: StartedStep[];

  private constructor(child: ChildProcess, address: string, port: number, steps: StartedStep[]) {
    this.child = child;
    this.address = address;
    this.port = port;
    this.steps = steps;
  }

  static start(settings: ReplicaSettings): Promise<Replica> {
    const child = spawn(process.execPath, [join(import.meta.dirname, "replica-host.ts"), JSON.stringify(settings)]);
    const steps: StartedStep[] = [];
    let errors = "";
    child.stderr.on("data", (text) => (errors = (errors + text).slice(-2_000)));
    return new Promise((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors}`)));
      createInterface(child.stdout).on("line", (line) => {
        const [type, id = "", step = "", at] = line.split(" ");
        if (type === "ready") resolve(new Replica(child, id, settings.port, steps));
        if (type === "step") steps.push({ id, step, at: Number(at) });
      });
    });
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const init = { method: "POST", body: JSON.stringify(body) };
    return fetch(this.address + path, { ...init, headers: { "content-type": "application/json", ...headers } });
  }
  get(path: string, signal?: AbortSignal): Promise<Response> {
    return fetch(this.address + path, signal ? { signal } : {});
  }

  /** Starts an execution and waits for its end. Resolves to the HTTP status and the status of the execution. */
  async execute(workflow: string, executionId: string): Promise<string> {
    const response = await this.post(`/workflows/${workflow}/execute`, { input: {}, options: { executionId } });
    const { data } = (await response.json()) as { data?: { status: string } };
    return `${response.status} ${data?.status}`;
  }

  /** Starts an execution without waiting for its end. Resolves to the HTTP status. */
  async begin(workflow: string, executionId: string, input: object = {}): Promise<number> {
    const body = { input, options: { executionId } };
    const response = await this.post(`/workflows/${workflow}/execute`, body, { prefer: "respond-async" });
    await response.text();
    return response.status;
  }

  async state(workflow: string, id: string): Promise<{ status: string } | undefined> {
    const response = await this.get(`/workflows/${workflow}/executions/${id}/state`);
    return ((await response.json()) as { data?: { status: string } }).data;
  }
}

/** Asks again if a busy machine refuses the call, or its replica is gone. */
export async function persist<T>(ask: () => Promise<T | undefined>): Promise<T> {
  let answer: T | undefined;
  await until(async () => (answer = await ask().catch(() => undefined)) !== undefined, "an answer");
  return answer!;
}

/** Calls for each id, at most 20 at a time. */
export async function forAll(
  ids: readonly string[],
  act: (id: string, index: number) => Promise<unknown>,
): Promise<void> {
  let next = 0;
  const work = async (): Promise<void> => {
    for (let index = next++; index < ids.length; index = next++) await act(ids[index]!, index);
  };
  await Promise.all(Array.from({ length: 20 }, work));
}

export interface ReplicasOptions {
  readonly count?: number;
  readonly ingress?: readonly string[];
  readonly admin?: string;
  /** The time that each step of the workflow `slow` takes. */
  readonly stepMs?: number;
  /** Restate calls the first replica only, for as long as it accepts connections. */
  readonly prefersFirst?: boolean;
  /** The proxy in front of the Restate ports asks for the health of the replicas. */
  readonly checks?: boolean;
  /** The interval of the schedule `each`. @default there is no schedule */
  readonly every?: string;
}

/** Replicas of one server as processes, with a proxy in front of their Restate ports. */
export class Replicas {
  readonly all: readonly Replica[];
  readonly proxy: PortProxy;
  readonly name: string;
  readonly #replicas: Replica[];
  readonly #folder: string;
  readonly #start: (port: number) => Promise<Replica>;

  private constructor(
    all: Replica[],
    proxy: PortProxy,
    { folder, name, start }: { folder: string; name: string; start: (port: number) => Promise<Replica> },
  ) {
    this.all = this.#replicas = all;
    this.proxy = proxy;
    this.name = name;
    this.#folder = folder;
    this.#start = start;
  }

  /** Kills a replica and starts another one in its place. Returns the steps that the killed one has started. */
  async replace(index: number): Promise<readonly StartedStep[]> {
    const { child, port, steps } = this.all[index]!;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
    this.#replicas[index] = await this.#start(port);
    return steps;
  }

  static async start(options: ReplicasOptions = {}): Promise<Replicas> {
    const { TEST_RESTATE_INGRESS = "", TEST_RESTATE_ADMIN = "" } = process.env;
    const { count = 3, ingress = [TEST_RESTATE_INGRESS], admin = TEST_RESTATE_ADMIN, stepMs = 100 } = options;
    const ports: number[] = [];
    for (let index = 0; index < count; index++) ports.push(await freePort());
    const { prefersFirst = false, checks = false } = options;
    const proxy = await PortProxy.start(ports, { ...(prefersFirst && { preferred: ports[0]! }), checks });
    const name = `replicas-${randomUUID()}`;
    const folder = mkdtempSync(join(tmpdir(), "agentserve-replicas-"));
    const gate = join(folder, "gate");
    const start = (port: number): Promise<Replica> =>
      Replica.start({ name, port, url: proxy.url, ingress, admin, stepMs, gate, every: options.every });
    const started = await Promise.allSettled(ports.map(start));
    const all = started.flatMap((result) => (result.status === "fulfilled" ? [result.value] : []));
    const replicas = new Replicas(all, proxy, { folder, name, start });
    const failed = started.find((result) => result.status === "rejected");
    if (failed) {
      replicas.close();
      throw failed.reason;
    }
    // Connections from before may be those to other replicas than the preferred one.
    await until(() => ports.every((port) => proxy.isHealthy(port)), "healthy replicas");
    proxy.disconnect();
    return replicas;
  }

  /** Lets the executions of the workflow `gated` continue. */
  openGate(): void {
    writeFileSync(join(this.#folder, "gate"), "");
  }

  close(): void {
    for (const { child } of this.all) child.kill("SIGKILL");
    this.proxy.close();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}
