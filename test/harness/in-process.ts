import { main } from "../../src/cli/main.ts";

export interface CommandResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface CommandOptions {
  readonly cwd?: string;
  readonly env?: NodeJS.ProcessEnv;
  /** True to press Ctrl+C as soon as the command waits for it: `dev` and `start`, when they serve. */
  readonly interrupts?: boolean;
}

const streams = ["stdout", "stderr"] as const;
const events = ["unhandledRejection", "uncaughtException", "SIGINT", "SIGTERM"] as const;
let last: Promise<unknown> = Promise.resolve();

/**
 * Runs `agentserve` from the source, in this process: for commands that end by themselves, or with `interrupts`. It starts no
 * Node and loads no module twice. Each command is also run as a process somewhere: only that shows exits, pipes and signals.
 * The files of a project are read once: what a test changes needs a process.
 */
export const runHere = (args: string[], options?: CommandOptions): Promise<CommandResult> =>
  capture(() => main(args), options);

/** Runs a part of a command with its own environment and folder. One after the other: both belong to the process. */
export function capture(run: () => Promise<void>, options: CommandOptions = {}): Promise<CommandResult> {
  const result = last.then(() => captureNow(run, options));
  last = result.catch(() => {});
  return result;
}

async function captureNow(run: () => Promise<void>, { cwd, env, interrupts }: CommandOptions): Promise<CommandResult> {
  const output = { stdout: "", stderr: "" };
  const exit = Promise.withResolvers<void>();
  const before = { cwd: process.cwd(), env: process.env, exit: process.exit, code: process.exitCode };
  const writes = streams.map((name) => process[name].write);
  const listeners = events.map((event) => process.listeners(event as "SIGINT"));
  const onError = streams.map((name) => process[name].listeners("error"));
  for (const name of streams) {
    process[name].write = ((text: string | Uint8Array, ...rest: unknown[]) => {
      output[name] += String(text);
      const done = rest.at(-1);
      if (typeof done === "function") queueMicrotask(() => done());
      return true;
    }) as typeof process.stdout.write;
  }
  let code: number | string | null | undefined;
  process.exit = ((asked) => {
    code ??= asked ?? process.exitCode ?? 0;
    exit.resolve();
  }) as typeof process.exit;
  process.exitCode = undefined;
  try {
    if (cwd) process.chdir(cwd);
    const { FORCE_COLOR: _, ...own } = env ?? before.env;
    process.env = { ...own, NO_COLOR: "1" };
    await Promise.race([exit.promise, run()]);
    const added = process.listeners("SIGINT").filter((listener) => !listeners[2]!.includes(listener));
    if (interrupts && code === undefined) {
      for (const listener of added) listener("SIGINT");
      if (added.length > 0) await exit.promise;
    }
    code ??= process.exitCode;
  } finally {
    process.chdir(before.cwd);
    process.env = before.env;
    process.exit = before.exit;
    process.exitCode = before.code;
    for (const [index, name] of streams.entries()) {
      process[name].write = writes[index]!;
      for (const listener of process[name].listeners("error"))
        if (!onError[index]!.includes(listener)) process[name].off("error", listener as () => void);
    }
    for (const [index, event] of events.entries())
      for (const listener of process.listeners(event as "SIGINT"))
        if (!listeners[index]!.includes(listener)) process.off(event, listener);
  }
  return { code: Number(code ?? 0), ...output };
}
