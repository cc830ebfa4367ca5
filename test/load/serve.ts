import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Bounds } from "../../src/config/limits.ts";
import { agentserve, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";

export interface LoadedServer {
  readonly url: string;
  readonly port: number;
  readonly child: Child;
  /** The memory of the process after a garbage collection. */
  memory(): Promise<NodeJS.MemoryUsage>;
  /** Resident memory, and the most that it has been so far, in MB. */
  rss(): { now: number; peak: number };
  /** Returns true until the process has ended. */
  lives(): boolean;
  /** Returns how many of the connections from these local ports the server has not closed. */
  open(ports: readonly number[]): number;
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Response>;
  get(path: string): Promise<Response>;
}
export interface ServeOptions {
  /** Limits and constants. */
  bounds?: Partial<Bounds>;
  /** Requires tokens that are signed with it. */
  secret?: string;
  /** Holds the gated workflows until `POST /gate`. */
  gated?: boolean;
  /** The number of workflows that only make `/doc` and the list longer, by more than 4 KB each. */
  more?: number;
  /** The size of the old generation, in MB. */
  heapMb?: number;
}

/** Serves `host.ts` with `agentserve start`, in a process that is killed at the end of the test. */
export async function serve({ bounds = {}, secret, gated, more, heapMb }: ServeOptions = {}): Promise<LoadedServer> {
  const data = join(createProject({}), "data.db");
  const env: NodeJS.ProcessEnv = {
    ...process.env,
    NODE_OPTIONS: `--expose-gc${heapMb ? ` --max-old-space-size=${heapMb}` : ""}`,
    LOAD_BOUNDS: JSON.stringify(bounds),
    ...(secret && { LOAD_SECRET: secret }),
    ...(gated && { LOAD_GATED: "1" }),
    ...(more && { LOAD_MORE: String(more) }),
  };
  const args = ["start", "--config", "test/load/load.config.ts", "--port", "0", "--data", data];
  const child = agentserve(args, { env });
  const [url] = await child.waitFor(/http:\/\/[\w.]+:\d+/);
  const { pid } = child.process;
  const port = Number(new URL(url).port);
  const get = (path: string): Promise<Response> => fetch(url + path);
  return {
    url,
    port,
    child,
    memory: async () => (await get("/memory")).json() as Promise<NodeJS.MemoryUsage>,
    rss() {
      const status = readFileSync(`/proc/${pid}/status`, "utf8");
      // A process that has ended has no memory.
      const read = (name: string): number =>
        Math.round(Number(new RegExp(`${name}:\\s+(\\d+) kB`).exec(status)?.[1] ?? 0) / 1_024);
      return { now: read("VmRSS"), peak: read("VmHWM") };
    },
    lives: () => child.process.exitCode === null && child.process.signalCode === null,
    open: (ports) => countOpen(port, new Set(ports)),
    get,
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body ?? {}),
      }),
  };
}

/**
 * Counts the connections to a port in the table of the kernel that the server has not closed. Those that it has not yet
 * accepted count as open.
 */
function countOpen(port: number, clients: ReadonlySet<number>): number {
  const rows = readFileSync("/proc/net/tcp", "utf8").trim().split("\n").slice(1);
  return rows.filter((row) => {
    const [, local = "", remote = "", state = ""] = row.trim().split(/\s+/);
    return toPort(local) === port && clients.has(toPort(remote)) && openStates.includes(state);
  }).length;
}

/** ESTABLISHED, and CLOSE_WAIT: closed by the client only. */
const openStates = ["01", "08"];
const toPort = (address: string): number => Number.parseInt(address.split(":")[1]!, 16);
