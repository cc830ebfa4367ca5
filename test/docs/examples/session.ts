import { expect } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import type { Block } from "./blocks.ts";
import { openShell, type Shell } from "./shell.ts";
import { toFilesBefore } from "./sources.ts";
import { readTemplate, secret } from "./tools.ts";
import type { World } from "./world.ts";

/** Where the documents say that the server is. */
export const documented = "http://127.0.0.1:3141";

/** `console`: what a person types after `$`, and what the terminal shows then, where `…` stands for anything. */
export async function runSession(block: Block, world: World): Promise<void> {
  const files = toFilesBefore(block, world.blocks);
  const cwd = world.tools.project({ ...readTemplate("starter"), ...files });
  const given = Object.values(files).some((text) => text.includes("JWT_SECRET")) ? { JWT_SECRET: secret } : {};
  const env = { ...world.tools.env, ...given };
  const server = agentserve(["dev"], { cwd, env });
  const [url] = await server.waitFor(/http:\/\/\S+:\d+/);
  await typeSession(openShell(cwd, { ...env, AGENTSERVE_URL: url }), block.text, url);
}

/** Types the commands of a session, to a server that is at another URL than the documented one. */
export async function typeSession(shell: Shell, text: string, url: string): Promise<void> {
  for (const { command, shown } of toSteps(text)) {
    const { code, output } = await shell.type(command.replaceAll(documented, url));
    expect.soft(code, `${command}\n${output}`).toBe(0);
    if (shown !== "") expect.soft(output.replaceAll(url, documented).trim(), command).toMatch(toPattern(shown));
  }
}

/** Each command, its lines joined, and what stands below it. */
function toSteps(text: string): { command: string; shown: string }[] {
  const steps = text.split(/^\$ /m).slice(1);
  if (!text.startsWith("$ ")) throw new Error(`a console begins with "$ ", not with ${JSON.stringify(text)}`);
  return steps.map((step) => {
    const [, command = "", shown = ""] = /^((?:[^\n]*\\\n)*[^\n]*)\n([^]*)$/.exec(step) ?? [];
    return { command, shown: shown.trim() };
  });
}

function toPattern(shown: string): RegExp {
  const fixed = shown.split("…").map((part) => part.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&"));
  // A duration of a second and more is said in seconds.
  return new RegExp(`^${fixed.join("[^]*?").replaceAll("[^]*? ms", "[^]*? m?s")}$`);
}
