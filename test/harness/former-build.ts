import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, mkdirSync, symlinkSync } from "node:fs";
import { dirname, join, relative } from "node:path";

const root = join(import.meta.dirname, "../..");
const hostFile = "test/harness/former-host.ts";

/** Returns whether the history of this clone has a commit. A shallow clone may lack it. */
export function hasCommit(commit: string): boolean {
  try {
    execFileSync("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: root, stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** The source of a former commit in a folder. Node runs it as it is, with the packages of today. */
export class FormerBuild {
  readonly #folder: string;

  /** `modules` are the files of today that its processes run, with those that they import. */
  constructor(commit: string, folder: string, modules: readonly string[]) {
    this.#folder = folder;
    const tree = execFileSync("git", ["archive", commit, "src", "package.json"], { cwd: root, maxBuffer: 2 ** 28 });
    execFileSync("tar", ["x"], { cwd: folder, input: tree });
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    for (const file of [hostFile, ...modules.map((module) => relative(root, module))]) {
      mkdirSync(dirname(join(folder, file)), { recursive: true });
      copyFileSync(join(root, file), join(folder, file));
    }
  }

  /** Starts a process of the former build that serves the config of a module. */
  async start(module: string, options: object): Promise<FormerProcess> {
    const file = join(this.#folder, relative(root, module));
    const child = spawn(process.execPath, [join(this.#folder, hostFile), file], {
      cwd: this.#folder,
      stdio: ["ignore", "ignore", "pipe", "ipc"],
    });
    let stderr = "";
    child.stderr!.setEncoding("utf8").on("data", (text: string) => void (stderr = (stderr + text).slice(-10_000)));
    child.send(options);
    const ended = once(child, "close").then((): never => {
      throw new Error(`The process of the former build has ended:\n${stderr}`);
    });
    ended.catch(() => {});
    const [url] = (await Promise.race([once(child, "message"), ended])) as [string];
    return new FormerProcess(child, url);
  }
}

export interface Answer {
  readonly status: number;
  /** JSON, or the events of a stream. */
  readonly body: any;
}

/** A server of a former build. */
export class FormerProcess {
  readonly url: string;
  readonly #child: ChildProcess;

  constructor(child: ChildProcess, url: string) {
    this.#child = child;
    this.url = url;
  }

  /** Sends a request, with POST if it has a body. */
  async request(path: string, body?: object, headers: Record<string, string> = {}): Promise<Answer> {
    const type = { "content-type": "application/json", ...headers };
    const init = body && { method: "POST", headers: type, body: JSON.stringify(body) };
    const response = await fetch(this.url + path, init);
    const text = await response.text();
    const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
    const lines = isStream ? [...text.matchAll(/^data: (.*)$/gm)].map(([, json]) => json) : undefined;
    return { status: response.status, body: lines ? lines.map((json) => JSON.parse(json!)) : JSON.parse(text) };
  }

  /** Ends the process with SIGKILL. */
  async kill(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "close");
    this.#child.kill("SIGKILL");
    await ended;
  }
}
