import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Host } from "../harness/start-host.ts";
import { until } from "../harness/waiting.ts";
import { PortProxy } from "./port-proxy.ts";
import { freePort } from "./restate-server.ts";
import type { ReplicaPlace, RestateAddresses } from "./serve-replica.ts";

/** The Restate server that all test files share. */
const sharedRestate: RestateAddresses = {
  ingress: process.env["TEST_RESTATE_INGRESS"] ?? "",
  admin: process.env["TEST_RESTATE_ADMIN"] ?? "",
};

export interface Answer {
  readonly status: number;
  /** The header `x-execution-id`. */
  readonly id: string;
  readonly body: any; // JSON of the server, or text
}

/** A replica as a process, which can be run again after its end. */
export class ReplicaProcess<Options extends object = object> {
  readonly place: ReplicaPlace & Options;
  host!: Host;
  readonly #module: string;

  constructor(module: string, place: ReplicaPlace & Options) {
    this.#module = module;
    this.place = place;
  }

  /** Starts the process. Resolves when it serves. */
  async run(): Promise<void> {
    this.host = new Host(this.#module, { onReport: (message) => this.onReport(message) });
    await this.host.start(this.place);
  }
  protected onReport(_message: any): void {}

  get address(): string {
    return this.host.url;
  }
  /** Whether it was, or is just being, killed. */
  get isKilled(): boolean {
    return this.host.child.killed;
  }
  send(signal: NodeJS.Signals): void {
    this.host.child.kill(signal);
  }
  async end(name: NodeJS.Signals = "SIGKILL"): Promise<void> {
    await this.host.end(name);
  }

  get(path: string, signal?: AbortSignal): Promise<Response> {
    return fetch(this.address + path, signal ? { signal } : {});
  }
  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const init = { method: "POST", body: JSON.stringify(body) };
    return fetch(this.address + path, { ...init, headers: { "content-type": "application/json", ...headers } });
  }
  /** Sends a request, with POST if it has a body. Resolves to the whole answer. */
  async request(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer> {
    const response = await (body === undefined ? this.get(path) : this.post(path, body, headers));
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json");
    const id = response.headers.get("x-execution-id") ?? "";
    return { status: response.status, id, body: isJson ? JSON.parse(text) : text };
  }
}

export interface GroupOptions extends Partial<RestateAddresses> {
  /** @default 3 */
  readonly count?: number;
  /** Restate calls the first replica only, for as long as it accepts connections. */
  readonly prefersFirst?: boolean;
  /** The proxy in front of the Restate ports asks for the health of the replicas. */
  readonly checks?: boolean;
}

/** Replicas of one server as processes, with a proxy in front of their Restate ports. */
export class ReplicaGroup<Replica extends ReplicaProcess<any>> {
  readonly all: Replica[] = [];
  readonly name = `replicas-${randomUUID()}`;
  readonly folder = mkdtempSync(join(tmpdir(), "agentserve-replicas-"));
  readonly #create: (place: ReplicaPlace & any) => Replica;
  readonly #options: GroupOptions;
  readonly #own: object;
  #proxy!: PortProxy;

  /** `own` are the options of the module. */
  constructor(create: (place: ReplicaPlace & any) => Replica, options: GroupOptions = {}, own: object = {}) {
    this.#create = create;
    this.#options = options;
    this.#own = own;
  }

  async open(): Promise<this> {
    const { count = 3, prefersFirst = false, checks = false } = this.#options;
    const ports: number[] = [];
    while (ports.length < count) ports.push(await freePort());
    this.#proxy = await PortProxy.start(ports, { ...(prefersFirst && { preferred: ports[0]! }), checks });
    this.all.push(...ports.map((port) => this.#at(port)));
    const started = await Promise.allSettled(this.all.map((replica) => replica.run()));
    const failed = started.find((result) => result.status === "rejected");
    if (failed) {
      this.close();
      throw failed.reason;
    }
    if (prefersFirst || checks) {
      // Connections from before may be those to other replicas than the preferred one.
      await until(() => ports.every((port) => this.#proxy.isHealthy(port)), "healthy replicas");
      this.disconnect();
    }
    return this;
  }

  #at(port: number, own: object = {}): Replica {
    const { ingress = sharedRestate.ingress, admin = sharedRestate.admin } = this.#options;
    const { name, folder } = this;
    return this.#create({ ingress, admin, name, port, url: this.#proxy.url, folder, ...this.#own, ...own });
  }

  /** Starts one more replica. Restate does not call it before `drivenBy` names it. */
  async add(own?: object): Promise<Replica> {
    const replica = this.#at(await freePort(), own);
    this.all.push(replica);
    await replica.run();
    return replica;
  }

  /** Ends a replica and starts another one in its place. Returns the one that has ended. */
  async replace(index: number, own?: object, name: NodeJS.Signals = "SIGKILL"): Promise<Replica> {
    const gone = this.all[index]!;
    await gone.end(name);
    const next = this.#at(gone.place.port, own);
    await next.run();
    this.all[index] = next;
    return gone;
  }

  /** From now on Restate calls these replicas only. */
  drivenBy(...replicas: readonly Replica[]): void {
    this.#proxy.use(replicas.map(({ place }) => place.port));
  }
  /** Does what the health check of a balancer does for a replica that hangs: Restate is not led to it any more. */
  takeOut(replica: Replica): void {
    this.drivenBy(...this.all.filter((one) => one !== replica));
  }
  isHealthy({ place }: Replica): boolean {
    return this.#proxy.isHealthy(place.port);
  }
  /** Lets the proxy take this for the result of a health check. */
  checked({ place }: Replica, isHealthy: boolean): void {
    this.#proxy.checked(place.port, isHealthy);
  }
  /** Ends all connections of Restate, which opens new ones. */
  disconnect(): void {
    this.#proxy.disconnect();
  }

  /** Creates a file in the shared folder. */
  touch(file: string): void {
    writeFileSync(join(this.folder, file), "");
  }
  /** The lines of a file in the shared folder. */
  lines(file: string): string[] {
    const path = join(this.folder, file);
    return existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : [];
  }

  /** The sum of a metric over all replicas, with any labels. */
  async sumOf(metric: string): Promise<number> {
    const texts = await Promise.all(this.all.map((replica) => replica.request("/metrics")));
    const lines = texts.flatMap(({ body }) => (body as string).split("\n"));
    const own = lines.filter((line) => line.startsWith(`${metric} `) || line.startsWith(`${metric}{`));
    return own.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
  }

  /** Resolves to rows of Restate's SQL tables. */
  query<Row>(sql: string): Promise<Row[]> {
    return query(sql, this.#options.admin);
  }

  close(): void {
    for (const { host } of this.all) host?.child.kill("SIGKILL");
    this.#proxy.close();
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 });
  }
}

/** Resolves to rows of Restate's SQL tables. */
export async function query<Row>(sql: string, admin: string = sharedRestate.admin): Promise<Row[]> {
  const headers = { "content-type": "application/json", accept: "application/json" };
  const response = await fetch(`${admin}/query`, { method: "POST", headers, body: JSON.stringify({ query: sql }) });
  return ((await response.json()) as { rows: Row[] }).rows;
}
