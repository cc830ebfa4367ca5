import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { within } from "../harness/waiting.ts";
import type { Payment } from "./approval-host.ts";
import { startProxy, type RestateAddresses } from "./chat-replicas.ts";
import { freePort } from "./restate-server.ts";

export interface Reply {
  readonly status: number;
  /** Undefined for a stream. */
  readonly body: any;
}

/** One process of a replica. */
class Life {
  readonly child: ChildProcess;
  readonly #address: string;
  #isKilled = false;

  private constructor(child: ChildProcess, address: string) {
    this.child = child;
    this.#address = address;
  }

  static async start(parameters: readonly string[], env: NodeJS.ProcessEnv): Promise<Life> {
    const child = spawn(process.execPath, [join(import.meta.dirname, "approval-host.ts"), ...parameters], { env });
    onTestFinished(() => void child.removeAllListeners("exit").kill("SIGKILL"));
    let errors = "";
    child.stderr.on("data", (text) => (errors += text));
    const address = await new Promise<string>((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors.slice(0, 2_000)}`)));
      createInterface(child.stdout).on("line", (line) => {
        if (line.startsWith("ready ")) resolve(line.slice("ready ".length));
      });
    });
    return new Life(child, address);
  }

  /** Sends a request. Undefined: the process was killed before the whole answer. */
  async ask(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Reply | undefined> {
    const json = { ...headers, "content-type": "application/json" };
    const init = body === undefined ? {} : { method: "POST", headers: json, body: JSON.stringify(body) };
    try {
      const response = await within(fetch(this.#address + path, init), path);
      const text = await within(response.text(), path);
      const isStream = response.headers.get("content-type") === "text/event-stream";
      return { status: response.status, body: isStream ? undefined : JSON.parse(text) };
    } catch (error) {
      if (this.#isKilled) return undefined;
      throw error;
    }
  }

  async kill(): Promise<void> {
    this.#isKilled = true;
    const exited = once(this.child, "exit");
    this.child.kill("SIGKILL");
    await exited;
  }
}

/** Replicas of `approval-host.ts` as processes behind a proxy. */
export class ApprovalReplicas {
  readonly lives: Life[];
  readonly #folder: string;
  readonly #start: (index: number) => Promise<Life>;

  private constructor(lives: Life[], folder: string, start: (index: number) => Promise<Life>) {
    this.lives = lives;
    this.#folder = folder;
    this.#start = start;
  }

  static async start({ ingress, admin }: RestateAddresses, count: number): Promise<ApprovalReplicas> {
    const folder = mkdtempSync(join(tmpdir(), "agentserve-approvals-"));
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
    const ports: number[] = [];
    while (ports.length < count) ports.push(await freePort());
    const proxy = await startProxy(ports);
    const name = `approvals-${randomUUID()}`;
    const env = { ...process.env, TEST_RESTATE_INGRESS: ingress, TEST_RESTATE_ADMIN: admin };
    const start = (index: number): Promise<Life> => Life.start([name, String(ports[index]), proxy.url, folder], env);
    return new ApprovalReplicas(await Promise.all(ports.map((_, index) => start(index))), folder, start);
  }

  /** Kills a replica, and starts it again. */
  async restart(index: number): Promise<void> {
    await this.lives[index]!.kill();
    this.lives[index] = await this.#start(index);
  }

  /** The runs of the tool, in their order. */
  payments(to?: string): Payment[] {
    const file = join(this.#folder, "log");
    const lines = existsSync(file) ? readFileSync(file, "utf8").split("\n").slice(0, -1) : [];
    const all = lines.map((line) => JSON.parse(line) as Payment);
    return to === undefined ? all : all.filter(({ input }) => input.to === to);
  }
  /** Lets the runs of the tool for an id last. Returns the release. */
  hold(id: string): () => void {
    const file = join(this.#folder, `hold-${id}`);
    writeFileSync(file, "");
    return () => rmSync(file, { force: true });
  }
}
