import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect } from "vitest";
import { parseEvents } from "../../harness/client.ts";
import { until } from "../../harness/waiting.ts";
import { PortProxy } from "../port-proxy.ts";
import { freePort } from "../restate-server.ts";

/** The settings of `replica-host.ts`. */
export interface HostSettings {
  readonly name: string;
  readonly port: number;
  readonly url: string;
  readonly ingress: readonly string[];
  readonly admin: string;
  readonly folder: string;
  readonly retention?: string | undefined;
  /** The version of the workflows `later` and `begun`. */
  readonly version: number;
}

export interface Answer {
  readonly status: number;
  /** The header `x-execution-id`. */
  readonly id: string;
  readonly body: any; // JSON of the server
}

/** A start of a step, in the order in which they happened. */
export interface RanStep {
  readonly tag: string;
  readonly id: string;
  readonly step: string;
}

/** A replica as a process. */
export class Replica {
  readonly settings: HostSettings;
  child!: ChildProcess;
  address = "";

  constructor(settings: HostSettings) {
    this.settings = settings;
  }

  /** Starts the process, also again after its end. Resolves when it serves. */
  async run(): Promise<void> {
    const host = join(import.meta.dirname, "replica-host.ts");
    const child = spawn(process.execPath, [host, JSON.stringify(this.settings)], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    let errors = "";
    child.stderr.on("data", (text) => (errors = (errors + text).slice(-2_000)));
    await new Promise<void>((resolve, reject) => {
      child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors}`)));
      createInterface(child.stdout).on("line", (line) => {
        if (!line.startsWith("ready ")) return;
        this.address = line.slice("ready ".length);
        resolve();
      });
    });
  }

  /** Ends the process by a signal. */
  async end(killSignal: NodeJS.Signals): Promise<void> {
    const ended = once(this.child, "exit");
    this.child.kill(killSignal);
    await ended;
  }

  async request(path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const type = { "content-type": "application/json" };
    const init =
      body === undefined ? {} : { method: "POST", body: JSON.stringify(body), headers: { ...type, ...headers } };
    const response = await fetch(this.address + path, init);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    return {
      status: response.status,
      id: response.headers.get("x-execution-id") ?? "",
      body: isJson ? JSON.parse(text) : text,
    };
  }

  /** Starts an execution without an id, and waits for the answer. */
  execute(workflow: string, tag: string, more: object = {}, options: object = {}): Promise<Answer> {
    return this.request(`/workflows/${workflow}/execute`, { input: { tag, ...more }, options });
  }

  /** The state of an execution. Undefined: it is not found. */
  async state(workflow: string, id: string): Promise<any> {
    const answer = await this.request(`${pathOf(workflow, id)}/state`);
    return answer.status === 404 ? undefined : toBody(answer).data;
  }

  /** The events of an execution up to its end or suspension. The last one has no time: it is that of the answer. */
  async events(workflow: string, id: string): Promise<any[]> {
    const events = parseEvents(toBody(await this.request(`${pathOf(workflow, id)}/stream`)));
    if (events.at(-1)?.type === "workflow-result") delete events.at(-1).timestamp;
    return events;
  }

  /** All executions of a workflow, newest first. */
  async list(workflow: string, search: Record<string, string> = {}): Promise<any[]> {
    const items: any[] = [];
    let cursor: string | null = null;
    do {
      const query = new URLSearchParams({ limit: "200", ...search, ...(cursor !== null && { cursor }) });
      const { data } = toBody(await this.request(`/workflows/${workflow}/executions?${query}`));
      items.push(...data.items);
      cursor = data.nextCursor;
    } while (cursor !== null);
    return items;
  }

  /** Resolves to the only entry of a list with this tag, once `isAsExpected` accepts its status. */
  async listed(workflow: string, tag: string, isAsExpected: (status: string) => boolean = () => true): Promise<any> {
    let found: any[] = [];
    const isListed = async (): Promise<boolean> => {
      found = (await this.list(workflow)).filter(({ input }) => input.tag === tag);
      return found.length > 0 && found.every(({ status }) => isAsExpected(status));
    };
    await until(isListed, () => `${tag} in the list, not ${JSON.stringify(found)}`);
    if (found.length > 1) throw new Error(`${tag} is listed more than once: ${JSON.stringify(found)}`);
    return found[0];
  }
}

/** The body of an answer with the status 200. */
function toBody({ status, body }: Answer): any {
  if (status !== 200) throw new Error(`expected 200, found ${status}: ${JSON.stringify(body)}`);
  return body;
}

export const pathOf = (workflow: string, id: string): string => `/workflows/${workflow}/executions/${id}`;
export const isOver = (status: string): boolean => status !== "running";

/** Every event has come once, and the last one is the result. */
export function checkEvents(events: readonly any[], status: string): void {
  const seqs = events.flatMap(({ seq }) => seq ?? []);
  expect(seqs).toEqual(seqs.map((_, index) => index + 1));
  expect(events[0]).toMatchObject({ type: "workflow-start" });
  expect(events.at(-1)).toMatchObject({ type: "workflow-result", status });
  expect(seqs).toHaveLength(events.length - 1);
}

export interface ReplicasOptions {
  readonly count?: number;
  readonly ingress?: readonly string[];
  readonly admin?: string;
  readonly retention?: string;
}

/** Replicas as processes, with a proxy in front of their Restate ports. */
export class Replicas {
  readonly all: Replica[] = [];
  readonly name = `solo-${randomUUID()}`;
  readonly #folder = mkdtempSync(join(tmpdir(), "agentserve-solo-"));
  readonly #options: ReplicasOptions;
  #proxy!: PortProxy;

  private constructor(options: ReplicasOptions) {
    this.#options = options;
  }

  static async start(options: ReplicasOptions = {}): Promise<Replicas> {
    const replicas = new Replicas(options);
    const ports: number[] = [];
    for (let index = 0; index < (options.count ?? 3); index++) ports.push(await freePort());
    replicas.#proxy = await PortProxy.start(ports);
    const started = await Promise.allSettled(ports.map((port) => replicas.#add(port, 1)));
    const failed = started.find((result) => result.status === "rejected");
    if (!failed) return replicas;
    replicas.close();
    throw failed.reason;
  }

  /** Adds a replica. Restate does not call it before `drivenBy` names it. */
  async add(version: number): Promise<Replica> {
    return this.#add(await freePort(), version);
  }
  async #add(port: number, version: number): Promise<Replica> {
    const { TEST_RESTATE_INGRESS = "", TEST_RESTATE_ADMIN = "" } = process.env;
    const { ingress = [TEST_RESTATE_INGRESS], admin = TEST_RESTATE_ADMIN, retention } = this.#options;
    const { name } = this;
    const settings = { name, port, url: this.#proxy.url, ingress, admin, folder: this.#folder, retention, version };
    const replica = new Replica(settings);
    this.all.push(replica);
    await replica.run();
    return replica;
  }

  /** From now on Restate calls these replicas only. */
  drivenBy(...replicas: readonly Replica[]): void {
    this.#proxy.use(replicas.map(({ settings }) => settings.port));
  }

  /** Lets the executions with this tag pass. */
  open(tag: string): void {
    writeFileSync(join(this.#folder, `open-${tag}`), "");
  }
  ran(tag?: string): RanStep[] {
    const file = join(this.#folder, "ran");
    const lines = existsSync(file) ? readFileSync(file, "utf8").trim().split("\n") : [];
    const steps = lines.map((line) => line.split(" ") as [string, string, string]);
    const all = steps.map(([one, id, step]) => ({ tag: one, id, step }));
    return tag === undefined ? all : all.filter((one) => one.tag === tag);
  }
  /** The steps of an execution that have started, in their order. */
  stepsOf(tag: string): string[] {
    return this.ran(tag).map(({ step }) => step);
  }
  /** Resolves to the id of an execution once a step of it has started. */
  async reached(tag: string, step: string): Promise<string> {
    await until(() => this.stepsOf(tag).includes(step), `${step} of ${tag}`);
    return this.ran(tag)[0]!.id;
  }

  /** Resolves to the rows that Restate has of the services of these replicas. */
  async query<T>(columns: string, table: "state" | "sys_invocation", where: string): Promise<T[]> {
    const column = table === "state" ? "service_name" : "target_service_name";
    const query = `select ${columns} from ${table} where ${column} like '${this.name}%' and ${where}`;
    const headers = { "content-type": "application/json", accept: "application/json" };
    const init = { method: "POST", headers, body: JSON.stringify({ query }) };
    const response = await fetch(`${this.#options.admin ?? process.env["TEST_RESTATE_ADMIN"]}/query`, init);
    return ((await response.json()) as { rows: T[] }).rows;
  }
  /** Resolves when Restate has nothing to do, except at a later time. */
  async idle(): Promise<void> {
    let busy: unknown[] = [];
    const isIdle = async (): Promise<boolean> => {
      busy = await this.query("target, status", "sys_invocation", "status not in ('scheduled', 'completed')");
      return busy.length === 0;
    };
    await until(isIdle, () => `Restate to be idle: ${JSON.stringify(busy.slice(0, 5))}`);
  }

  close(): void {
    for (const { child } of this.all) child.kill("SIGKILL");
    this.#proxy.close();
    rmSync(this.#folder, { recursive: true, force: true, maxRetries: 5 });
  }
}
