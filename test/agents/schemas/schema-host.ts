import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { patienceMs } from "../../harness/patience.ts";
import { ofBody, ofStream, untilChecked, type Attack, type Json, type Verdict } from "./verdict.ts";

interface Probe {
  /** The processor time that the event loop's thread has taken, in milliseconds. */
  readonly cpu: number;
  readonly heap: number;
  readonly polluted: boolean;
}
export interface Host {
  readonly child: ChildProcess;
  /** Asks until the machine has time for the check: as long as it has none, the answer is 503. */
  ask(
    endpoint: string,
    attack: Omit<Attack, "name" | "verdicts"> & Partial<Attack>,
    onTry?: () => void,
  ): Promise<Verdict>;
  askOnce(endpoint: string, attack: Omit<Attack, "name" | "verdicts">): Promise<Verdict>;
  probe(message?: "collect"): Promise<Probe>;
  /** Of the process; undefined where the system does not say. */
  size(): { threads: number; rss: number } | undefined;
  close(): Promise<void>;
}

export async function openHost(constants: Json = {}): Promise<Host> {
  const child = fork("test/agents/schemas/host.mjs", [resolve("dist"), JSON.stringify(constants)], {
    execArgv: ["--expose-gc"],
    stdio: ["ignore", "ignore", "ignore", "ipc"],
  });
  const ended = once(child, "exit").then(([code, signal]) => {
    throw new Error(`the server has ended: ${code ?? signal}`);
  });
  ended.catch(() => {});
  const hear = async (): Promise<unknown> => (await Promise.race([once(child, "message"), ended]))[0];
  const url = (await hear()) as string;

  async function ask(endpoint: string, { agent = "verbatim", schema, says }: Omit<Attack, "name" | "verdicts">) {
    const began = performance.now();
    const input = typeof says === "string" ? says : JSON.stringify(says);
    const response = await fetch(`${url}/agents/${agent}/${endpoint}`, {
      method: "POST",
      signal: AbortSignal.timeout(patienceMs),
      headers: { "content-type": "application/json" },
      body: `{"input":${JSON.stringify(input)},"schema":${typeof schema === "string" ? schema : JSON.stringify(schema)}}`,
    });
    const text = await response.text();
    const ms = performance.now() - began;
    return { ms, ...(response.ok && endpoint === "stream-object" ? ofStream(text) : ofBody(response.status, text)) };
  }

  return {
    child,
    ask: (endpoint, attack, onTry) =>
      untilChecked(
        () => {
          onTry?.();
          return Promise.race([ask(endpoint, attack), ended]);
        },
        ({ status, message }) => status !== 400 || attack.verdicts?.includes(400) !== false || !/takes/.test(message),
      ),
    askOnce: (endpoint, attack) => Promise.race([ask(endpoint, attack), ended]),
    async probe(message) {
      child.send(message ?? "read");
      return (await hear()) as Probe;
    },
    size() {
      if (process.platform !== "linux") return undefined;
      const status = readFileSync(`/proc/${child.pid}/status`, "utf8");
      const number = (name: string): number => Number(new RegExp(`^${name}:\\s+(\\d+)`, "m").exec(status)![1]);
      return { threads: number("Threads"), rss: number("VmRSS") * 1_024 };
    },
    async close() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await ended.catch(() => {});
    },
  };
}
