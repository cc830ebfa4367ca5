import { expect } from "vitest";
import { run, type Child } from "../../harness/cli.ts";
import { readTemplate } from "./tools.ts";

/** The starter, which `--strict` lets others reach once there is a secret. */
export const readDeployed = (): Record<string, string> => ({
  ...readTemplate("starter"),
  "package.json": `{ "type": "module" }`,
  "package-lock.json": "{}",
});

export interface Deployment {
  readonly command: readonly string[];
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
  /** How long it may take to end. */
  readonly stopMs: number;
}

/** Runs what a host runs: it must answer, and end with 0 in time when it is told to. */
export async function expectDeployed({ command, cwd, env, stopMs }: Deployment): Promise<Child> {
  const [program, ...args] = command;
  const starting = performance.now();
  const child = run(program!, args, { cwd, env: { ...env, PORT: "0" } });
  const [, port] = await child.waitFor(/http:\/\/\S+:(\d+)/);
  const startMs = performance.now() - starting;
  const url = `http://127.0.0.1:${port}`;
  const ask = async (path: string, method: string) => (await fetch(url + path, { method })).status;
  expect(await Promise.all([ask("/agents", "GET"), ask("/workflows/approval/execute", "POST")])).toEqual([200, 401]);
  const began = performance.now();
  child.process.kill("SIGINT");
  expect(await child.ended).toMatchObject({ code: 0, signal: null });
  // The machine may be busy: its start shows how much.
  expect(performance.now() - began).toBeLessThan(stopMs + startMs);
  return child;
}
