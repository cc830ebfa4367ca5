import { spawn, type ChildProcess, type SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import { atEnd } from "./at-end.ts";
import { keepLogged } from "./logged.ts";

export const bin = resolve("bin/agentserve.mjs");

export interface Child {
  readonly process: ChildProcess;
  /** The output so far, without colours. */
  readonly output: () => { stdout: string; stderr: string };
  /** Resolves once stdout matches; rejects when the process ends first. */
  waitFor(pattern: RegExp): Promise<RegExpExecArray>;
  readonly ended: Promise<{ code: number | null; signal: NodeJS.Signals | null; stdout: string; stderr: string }>;
}

/** Starts a command as a process of its own, which is killed at the end of the test. */
export function run(command: string, args: string[], options: SpawnOptions = {}): Child {
  const child = spawn(command, args, { stdio: ["ignore", "pipe", "pipe"], ...options });
  atEnd(() => void child.kill("SIGKILL"));
  const text = { stdout: "", stderr: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]!.setEncoding("utf8").on("data", (chunk: string) => (text[name] += stripVTControlCharacters(chunk)));
  }
  const ended = once(child, "close").then(([code, signal]) => {
    keepLogged(text.stderr);
    return { code, signal, ...text };
  });
  async function waitFor(pattern: RegExp): Promise<RegExpExecArray> {
    for (;;) {
      const match = pattern.exec(text.stdout);
      if (match) return match;
      const over = await Promise.race([once(child.stdout!, "data").then(() => false), ended.then(() => true)]);
      if (over && !pattern.test(text.stdout))
        throw new Error(`ended without ${pattern}:\n${text.stdout}${text.stderr}`);
    }
  }
  return { process: child, output: () => ({ ...text }), waitFor, ended };
}

/** The lines of stderr that are not records of requests and executions, which `dev` logs as JSON. */
export const withoutActivity = (stderr: string): string =>
  stderr.replace(/^\{.*"message":"(Request|Execution) \w+".*\}\n/gm, "");

/** Starts `agentserve`, as built. */
export const agentserve = (args: string[], options?: SpawnOptions): Child =>
  run(process.execPath, [bin, ...args], options);
