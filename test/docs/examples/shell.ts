import { onTestFinished } from "vitest";
import { run } from "../../harness/cli.ts";

/** A shell that a person types into: what a line sets or where it goes holds for the next. */
export interface Shell {
  /** Resolves with all that the terminal shows, once the command is over. */
  type(command: string): Promise<Typed>;
  /** Types a command that serves, lets `ask` ask the server, then presses Ctrl-C. */
  serve(command: string, ask: (url: string) => Promise<void>): Promise<Typed>;
}
interface Typed {
  readonly code: number;
  readonly output: string;
}

export function openShell(cwd: string, env: NodeJS.ProcessEnv): Shell {
  const child = run("sh", [], { cwd, env, detached: true, stdio: ["pipe", "pipe", "pipe"] });
  const group = -child.process.pid!;
  onTestFinished(() => {
    try {
      process.kill(group, "SIGKILL");
    } catch {} // it has ended
  });
  const stdin = child.process.stdin!;
  stdin.write("exec 2>&1\ntrap : INT\n"); // Ctrl-C ends the command, not the shell
  let count = 0;

  function begin(command: string): { mark: string; ended: Promise<Typed> } {
    const mark = `@${++count}`;
    stdin.write(`printf '${mark}<\\n'\n{ ${command}\n} </dev/null\nprintf '${mark}>%s\\n' "$?"\n`);
    const ended = child.waitFor(new RegExp(`${mark}<\\n([^]*)${mark}>(\\d+)\\n`));
    return { mark, ended: ended.then(([, output, code]) => ({ code: Number(code), output: output! })) };
  }

  return {
    type: (command) => begin(command).ended,
    async serve(command, ask) {
      const { mark, ended } = begin(command);
      const ready = child.waitFor(new RegExp(`${mark}<\\n[^]*?(http://\\S+:\\d+)`));
      const early = ended.then(({ code, output }) => {
        throw new Error(`${command} ended with ${code}:\n${output}`);
      });
      const [, url] = await Promise.race([ready, early]);
      early.catch(() => {}); // from here on it is to end
      await ask(url!);
      process.kill(group, "SIGINT");
      return ended;
    },
  };
}
