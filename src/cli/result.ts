import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeSync } from "node:fs";
import { attempt } from "../core/attempt.ts";

const variable = "AGENTSERVE_RESULT_FD";
const descriptor = Number(process.env[variable] ?? 0);
delete process.env[variable]; // the project's own processes must not see it

/**
 * Runs this command again in a child process: its stdout is our stderr, and its file descriptor 3 is our stdout. Then a project
 * can print as it likes: some loggers and child processes write to the descriptor itself, where JavaScript cannot redirect
 * them. Resolves to false in the child, and to true here when the child has exited.
 */
export async function runInChild(): Promise<boolean> {
  if (descriptor) return false;
  const args = [...process.execArgv, ...process.argv.slice(1)];
  const env = { ...process.env, [variable]: "3" };
  const child = spawn(process.execPath, args, { stdio: ["inherit", 2, 2, 1], env });
  const [code] = (await once(child, "exit")) as [number | null];
  process.exitCode = code ?? 1;
  return true;
}

/** Writes the result of a command to the real stdout. */
export function writeResult(text: string): void {
  if (descriptor) attempt(() => writeAll(descriptor, Buffer.from(text))); // the reader may be closed
  else process.stdout.write(text);
}

function writeAll(to: number, bytes: Uint8Array): void {
  for (let at = 0; at < bytes.length;) {
    try {
      at += writeSync(to, bytes, at);
    } catch (error) {
      // A pipe that another process has made non-blocking is full.
      if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 5);
    }
  }
}
