import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { freePort } from "../harness/free-port.ts";
import { patienceMs } from "../harness/patience.ts";

export { freePort };

const binary = join(
  import.meta.dirname,
  `server/node_modules/@restatedev/restate-server-${process.platform}-${process.arch}/bin/restate-server`,
);

/** A real restate-server with its own folder and ports. */
export class RestateServer {
  readonly ingress: string;
  readonly admin: string;
  readonly #folder: string;
  #process: ChildProcess | undefined;
  #output = "";

  private constructor(folder: string, ingress: number, admin: number) {
    this.#folder = folder;
    this.ingress = `http://127.0.0.1:${ingress}`;
    this.admin = `http://127.0.0.1:${admin}`;
  }

  /** Starts a server with an empty store. `settings` is more of its TOML file. */
  static async start(settings = ""): Promise<RestateServer> {
    for (let attempt = 1; ; attempt++) {
      const server = RestateServer.#create(await toPlace("n1"), settings);
      try {
        await server.run();
        return server;
      } catch (error) {
        await server.remove();
        // Another process has taken one of the ports meanwhile.
        if (attempt === 3 || !server.#output.includes("Address in use")) throw error;
      }
    }
  }

  /** Starts the nodes of a cluster that keeps everything on two of them. */
  static async startCluster(size: number): Promise<RestateServer[]> {
    const places = await Promise.all(Array.from({ length: size }, (_, index) => toPlace(`n${index + 1}`)));
    const addresses = places.map(({ node }) => `"http://127.0.0.1:${node}"`).join(", ");
    const nodes = places.map((place, index) =>
      RestateServer.#create(
        place,
        `auto-provision = ${index === 0}
default-replication = 2
[metadata-client]
addresses = [${addresses}]`,
      ),
    );
    const started = await Promise.allSettled(nodes.map((node) => node.run()));
    const failed = started.find((result) => result.status === "rejected");
    if (!failed) return nodes;
    await Promise.all(nodes.map((node) => node.remove()));
    throw failed.reason;
  }

  static #create(place: Place, settings: string): RestateServer {
    const { folder, ingress, admin } = place;
    writeFileSync(join(folder, "restate.toml"), toToml(place, settings));
    return new RestateServer(folder, ingress, admin);
  }

  /** Runs the process, and resolves when it is healthy. Also after `kill`. */
  async run(): Promise<void> {
    // It reads every variable that begins with RESTATE_ as a setting.
    const env = Object.fromEntries(Object.entries(process.env).filter(([key]) => !key.startsWith("RESTATE_")));
    const child = spawn(binary, ["--config-file", join(this.#folder, "restate.toml")], { env });
    const keep = (text: Buffer): void => void (this.#output = (this.#output + text).slice(-4_000));
    child.stdout.on("data", keep);
    child.stderr.on("data", keep);
    this.#process = child;
    const until = performance.now() + patienceMs;
    while (!(await isHealthy(this.ingress, this.admin))) {
      if (child.exitCode !== null || performance.now() > until) throw new Error(`restate-server: ${this.#output}`);
      await sleep(50);
    }
  }

  /** Lets the process hang: it keeps its ports and answers nothing. */
  pause(): void {
    this.#process?.kill("SIGSTOP");
  }
  continue(): void {
    this.#process?.kill("SIGCONT");
  }

  /** Ends the process with SIGKILL. Its store stays. */
  async kill(): Promise<void> {
    const child = this.#process;
    if (!child || child.exitCode !== null || child.signalCode !== null) return;
    const ended = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGKILL");
    await ended;
  }

  /** Ends the process and removes its store. */
  async remove(): Promise<void> {
    await this.kill();
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

async function isHealthy(ingress: string, admin: string): Promise<boolean> {
  const urls = [`${ingress}/restate/health`, `${admin}/health`];
  const answers = await Promise.all(urls.map((url) => fetch(url).catch(() => undefined)));
  return answers.every((answer) => answer?.ok);
}

/** The name, the folder and the ports of a node. */
interface Place {
  readonly name: string;
  readonly folder: string;
  readonly node: number;
  readonly ingress: number;
  readonly admin: number;
}
async function toPlace(name: string): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-restate-"));
  return { name, folder, node: await freePort(), ingress: await freePort(), admin: await freePort() };
}
const toToml = ({ name, folder, node, ingress, admin }: Place, settings: string): string => `
disable-telemetry = true
cluster-name = "test"
node-name = "${name}"
base-dir = "${join(folder, "data")}"
rocksdb-total-memory-size = "256 MB"
bind-address = "127.0.0.1:${node}"
advertised-address = "http://127.0.0.1:${node}"
default-num-partitions = 4
${settings}
[admin]
bind-address = "127.0.0.1:${admin}"
[ingress]
bind-address = "127.0.0.1:${ingress}"
`;
