import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, statSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { SpawnOptions } from "node:child_process";
import { agentserve, type Child } from "../harness/cli.ts";
import { createProject } from "../harness/project.ts";
import { patienceMs } from "../harness/patience.ts";
import { until } from "../harness/waiting.ts";

export type Files = Record<string, string | Uint8Array>;

/** `agentserve dev` of a folder whose files a test saves. */
export interface DevServer {
  readonly child: Child;
  readonly folder: string;
  readonly url: string;
  /** In one go, as most editors do: nobody ever reads half a file. */
  save(files: Files): void;
  /** Does something, and resolves to all that is said from then on until this is; rejects after 10 s. */
  said(pattern: RegExp, act: () => void): Promise<string>;
  /** Saves a version that is good: resolves once it is served, to what was said. */
  serves(files: Files): Promise<string>;
  /** Saves a version that is bad: resolves to what was said of it. */
  refuses(files: Files): Promise<string>;
  /** The workflows that it serves: `id:purpose`, or only the id. */
  workflows(): Promise<string[]>;
  /** Every byte that it has written, colours and all. */
  raw(): string;
}

export interface DevOptions extends SpawnOptions {
  /** @default --port 0 */
  readonly args?: readonly string[];
  /** Whether it is waited for that the folders of the project are watched. @default true */
  readonly watched?: boolean;
}

export const served = /^✓ .*\n/m;
export const refused = /still serving the last good version\n/;

/** The default of a project that a test does not care about. */
export const config = `import { defineConfig } from "agentserve";
export default defineConfig({ server: { cors: false } });
`;
export const workflow = (id: string, purpose = "1"): string => `import { defineWorkflow } from "agentserve";
export const it = defineWorkflow({ id: "${id}", purpose: \`${purpose}\` }).andThen({ id: "s", execute: () => 1 });
`;

/** A project of these files, served until the test is over. */
export function startDev(files: Record<string, string>, options?: DevOptions): Promise<DevServer> {
  return openDev(createProject(files), options);
}

export async function openDev(folder: string, options: DevOptions = {}): Promise<DevServer> {
  const { args = ["--port", "0"], watched = true, ...spawning } = options;
  const child = agentserve(["dev", "--data", ":memory:", ...args], { cwd: folder, ...spawning });
  let text = "";
  for (const name of ["stdout", "stderr"] as const) child.process[name]!.on("data", (chunk) => (text += chunk));
  const [, url = ""] = await child.waitFor(/(https?:\/\/\S+).* ready in/);
  if (watched) await isWatched(child.process.pid!, folder);

  async function said(pattern: RegExp, act: () => void): Promise<string> {
    const from = text.length;
    act();
    const late = AbortSignal.timeout(patienceMs);
    const { stdout, stderr } = child.process;
    while (!pattern.test(text.slice(from))) {
      const more = new AbortController();
      const signal = AbortSignal.any([late, more.signal]);
      const next = [stdout!, stderr!].map((stream) => once(stream, "data", { signal }));
      await Promise.race([...next, child.ended.then(() => Promise.reject(new Error("it ended")))]).catch((error) => {
        throw new Error(
          `did not say ${pattern}, but:\n${text.slice(from)}\nBefore:\n${text.slice(0, from).slice(-2_000)}`,
          { cause: error },
        );
      });
      more.abort();
      await Promise.allSettled(next);
    }
    return text.slice(from);
  }
  function save(files: Files): void {
    for (const [name, content] of Object.entries(files)) {
      const saving = join(dirname(name), ".saving");
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFiles(folder, { [saving]: content });
      renameSync(join(folder, saving), join(folder, name));
    }
  }
  return {
    child,
    folder,
    url,
    save,
    said,
    serves: (files) => said(served, () => save(files)),
    refuses: (files) => said(refused, () => save(files)),
    async workflows() {
      const { data } = (await (await fetch(`${url}/workflows`)).json()) as { data: { id: string; purpose: string }[] };
      return data.map(({ id, purpose }) => (purpose ? `${id}:${purpose}` : id));
    },
    raw: () => text,
  };
}

/** Over what is there: for a moment a file is empty. */
export function writeFiles(folder: string, files: Files): void {
  for (const [name, text] of Object.entries(files)) {
    const file = join(folder, name);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
  }
}

/** Resolves once the kernel watches a project for this process. Elsewhere than on Linux nobody can tell. */
async function isWatched(pid: number, folder: string): Promise<void> {
  if (!existsSync("/proc/self/fdinfo")) return;
  const names = ["", "agents", "workflows", "schedules"]
    .map((name) => join(folder, name))
    .filter((name) => existsSync(name));
  const nodes = names.map((name) => `ino:${statSync(name).ino.toString(16)} `);
  const watches = (): string => {
    const read = (name: string): string => {
      try {
        return readFileSync(`/proc/${pid}/fdinfo/${name}`, "utf8");
      } catch {
        return ""; // closed meanwhile
      }
    };
    return readdirSync(`/proc/${pid}/fdinfo`).map(read).join("");
  };
  await until(() => nodes.every((node) => watches().includes(node)), `watches of ${names.join()}`);
}
