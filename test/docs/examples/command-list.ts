import { expect } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import type { Block } from "./blocks.ts";

/** The list of commands: just those that `--help` lists, with flags that they have. */
export async function runCommandList(block: Block): Promise<void> {
  const help = async (...args: string[]) => (await agentserve([...args, "--help"]).ended).stdout;
  const lines = block.text.trimEnd().split("\n");
  const listed = lines.map((line) => /^npx agentserve (\w+)((?: \[\w+\])?) {2,}(.+)$/.exec(line) ?? [line]);
  const [, commands = ""] = (await help()).split("\nCommands:\n");
  const known = [...commands.split("\n\n")[0]!.matchAll(/^ {2}(\w+)/gm)].map(([, name]) => name);
  expect(listed.map(([, name]) => name).toSorted()).toEqual(known.filter((name) => name !== "help").toSorted());
  for (const [, name, argument, said] of listed) {
    const text = await help(name!);
    if (argument) expect(text).toContain(argument.trim());
    for (const [flag] of said!.matchAll(/--[\w-]+/g)) expect(text, `${name} ${flag}`).toContain(`${flag} `);
    for (const [, , choices] of said!.matchAll(/(--[\w-]+) ([\w-]+(?: \| [\w-]+)+)/g)) {
      expect(text.replace(/\s+/g, " ")).toContain(
        `(choices: ${choices!
          .split(" | ")
          .map((choice) => `"${choice}"`)
          .join(", ")})`,
      );
    }
  }
}
