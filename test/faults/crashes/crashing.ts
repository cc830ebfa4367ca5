import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { stripVTControlCharacters } from "node:util";
import type { TestContext } from "vitest";
import { bin } from "../../harness/cli.ts";
import { createClient, type Client } from "../../harness/client.ts";
import { keepLogged } from "../../harness/logged.ts";
import { until, within } from "../../harness/waiting.ts";

/** The end of a process. */
export interface Death {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
}
/** One `agentserve start`. */
export interface Life extends Client {
  readonly child: ChildProcess;
  readonly url: string;
  readonly ended: Promise<Death>;
  readonly isOver: () => boolean;
  end(how: NodeJS.Signals): Promise<Death>;
}

/** A project whose server crashes and is started again on the same data. */
export interface Crashing {
  readonly folder: string;
  write(file: string, text: string): void;
  /** The lines that steps have written to `ran.txt`. */
  ran(): string[];
  /** The lines about an execution that all servers so far have logged. */
  logged(executionId: string): string;
  /** Starts the server. Resolves when it has printed its URL; rejects when it ends without. */
  start(): Promise<Life>;
  /** Like `start`, for a server that a recovered step blocks: no request is made. */
  spawn(): Promise<Omit<Life, keyof Client>>;
}

/** `flags` are those of Node. The folder and the processes are removed at the end of the test. */
export function createCrashing(
  { onTestFinished }: Pick<TestContext, "onTestFinished">,
  files: Record<string, string>,
  flags: string[] = [],
): Crashing {
  const folder = mkdtempSync(join(tmpdir(), "agentserve-crashes-"));
  const children: ChildProcess[] = [];
  onTestFinished(async () => {
    for (const child of children) child.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 });
  });
  symlinkSync(resolve("node_modules"), join(folder, "node_modules"));
  mkdirSync(join(folder, "workflows"));
  const write = (file: string, text: string): void => writeFileSync(join(folder, file), text);
  for (const [file, text] of Object.entries(files)) write(file, text);

  let doc: unknown;
  let log = "";

  async function spawnServer(): Promise<Omit<Life, keyof Client>> {
    // Without the variables that tell the logger that tests are running.
    const { NODE_ENV: _, VITEST: __, TEST: ___, ...env } = process.env;
    const args = [...flags, bin, "start", "--port", "0"];
    const child = spawn(process.execPath, args, { cwd: folder, env, stdio: ["ignore", "pipe", "pipe"] });
    children.push(child);
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => (stdout += stripVTControlCharacters(text)));
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += stripVTControlCharacters(text);
      log += stripVTControlCharacters(text);
    });
    let isOver = false;
    const ended = once(child, "close").then(([code, signal]): Death => {
      isOver = true;
      keepLogged(stderr);
      return { code, signal, stderr };
    });
    const findUrl = (): string | undefined => /http:\/\/127\.0\.0\.1:\d+/.exec(stdout)?.[0];
    const show = (): string => `the server to listen:\n${stdout}${stderr.slice(-4_000)}`;
    await until(() => isOver || findUrl() !== undefined, show);
    const url = findUrl();
    if (url === undefined) throw new Error(`It ended before ${show()}`);
    async function end(how: NodeJS.Signals): Promise<Death> {
      child.kill(how);
      return within(ended, `the server to end by ${how}`);
    }
    return { child, url, ended, isOver: () => isOver, end };
  }

  return {
    folder,
    write,
    ran: () =>
      existsSync(join(folder, "ran.txt")) ? readFileSync(join(folder, "ran.txt"), "utf8").trim().split("\n") : [],
    logged: (id) =>
      log
        .split("\n")
        .filter((line) => line.includes(`"${id}"`))
        .join("\n"),
    spawn: spawnServer,
    async start() {
      const life = await spawnServer();
      // Of the first life: a later one may end at any time.
      doc ??= await (await fetch(`${life.url}/doc`)).json();
      return { ...life, ...createClient((path, init) => fetch(life.url + path, init), doc as never) };
    },
  };
}

export const config = `import { defineConfig } from "agentserve";
export default defineConfig({ server: { port: 0, limits: { drainMs: 300 } } });
`;
