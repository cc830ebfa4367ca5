import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createServer as createOurs, embedded, type Config } from "agentserve";
import { onTestFinished } from "vitest";
import { atEnd, shared } from "../../harness/at-end.ts";
import { agentserve, bin, run, type Child } from "../../harness/cli.ts";
import { runHere, type CommandResult } from "../../harness/in-process.ts";
import { createTestLogger } from "../../harness/server.ts";

const env = (own: Record<string, string> = {}) => ({
  ...process.env,
  AGENTSERVE_URL: "",
  AGENTSERVE_TOKEN: "",
  NO_COLOR: "1",
  ...own,
});

/** `agentserve call` without a terminal. */
export const startCall = (args: string[], own?: Record<string, string>): Child =>
  agentserve(["call", ...args], { env: env(own) });

/** `agentserve call` in this process. */
export const call = (args: string[], own?: Record<string, string>): Promise<CommandResult> =>
  runHere(["call", ...args], { env: env(own) });

/** `agentserve call` that finds this on its stdin. */
export function callWith(stdin: string, args: string[]): Child["ended"] {
  const child = agentserve(["call", ...args], { env: env(), stdio: ["pipe", "pipe", "pipe"] });
  child.process.stdin!.end(stdin);
  return child.ended;
}

export interface Terminal extends Child {
  type(keys: string): void;
}
/** `agentserve call` in a terminal of its own: all that it shows is in `stdout`. */
export function callInTerminal(args: string[], own?: Record<string, string>): Terminal {
  const words = [process.execPath, bin, "call", ...args].map((word) => `'${word.replaceAll("'", `'\\''`)}'`);
  const child = run("script", ["-qec", `stty cols 200 rows 50; exec ${words.join(" ")}`, "/dev/null"], {
    env: { ...env(own), TERM: "xterm" },
    stdio: ["pipe", "pipe", "pipe"],
  });
  return { ...child, type: (keys) => void child.process.stdin!.write(keys) };
}

/** A server in this process for all tests of a file. Returns its URL. */
export const share = (config: Config): (() => string) =>
  shared(async () => {
    const server = createOurs({ backend: embedded({ path: ":memory:" }), logger: createTestLogger([]), ...config });
    atEnd(() => server.close());
    return (await server.listen({ port: 0 })).url;
  });

/** A server of a project, as a process of its own. */
export async function serve(cwd: string, args: string[] = []): Promise<Child & { url: string; stop(): Promise<void> }> {
  const child = agentserve(["start", "--port", "0", "--data", ":memory:", ...args], { cwd });
  const [url] = await child.waitFor(/http:\/\/[\d.]+:\d+/);
  const stop = async () => {
    child.process.kill("SIGKILL");
    await child.ended;
  };
  return { ...child, url, stop };
}

/** A server that is not ours, or one that lies. */
export async function pretend(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<{ url: string; requests: IncomingMessage[]; close(): Promise<void> }> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    request.resume();
    answer(request, response);
  });
  const close = () =>
    new Promise<void>((resolve) => {
      server.close(() => resolve());
      server.closeAllConnections();
    });
  onTestFinished(close);
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, requests, close };
}

export const post = (url: string, body: object, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body),
  });

/** The values of an output in which every line is JSON. */
export const parseLines = (text: string): any[] =>
  text
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line));

/** Frames of an event stream, as a server of ours would send them. */
export const toFrames = (events: object[]): string =>
  events.map((event) => `data: ${JSON.stringify(event)}\n\n`).join("");

/** Resolves once what was said on stderr holds this. */
export async function heard({ process: child, output, ended }: Child, pattern: RegExp): Promise<RegExpExecArray> {
  for (;;) {
    const match = pattern.exec(output().stderr);
    if (match) return match;
    const more = new Promise<boolean>((resolve) => child.stderr!.once("data", () => resolve(true)));
    if (!(await Promise.race([more, ended.then(() => false)])) && !pattern.test(output().stderr))
      throw new Error(`ended without ${pattern}:\n${output().stderr}`);
  }
}
