import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createToken } from "agentserve";
import { expect } from "vitest";
import { agentserve } from "../../harness/cli.ts";
import type { Block } from "./blocks.ts";
import { documented } from "./session.ts";
import { openShell } from "./shell.ts";
import { readTemplate, secret } from "./tools.ts";
import type { World } from "./world.ts";

/** `sh`: commands, one a line. Each must succeed; one that serves must answer, and end with 0 on Ctrl-C. */
export async function runCommands(block: Block, world: World): Promise<void> {
  const commands = block.text
    .replaceAll("\\\n", "")
    .split("\n")
    .filter((line) => line.trim() !== "");
  if (commands.every((line) => /^npm ci && npm (start|test)( +#|$)/.test(line))) return expectByName(commands);

  const { env, shown } = world.tools;
  const begins = /agentserve init/.test(block.text);
  const manifest = { "package.json": `{ "type": "module" }`, "package-lock.json": "{}" };
  const cwd = world.tools.project(begins ? {} : { ...manifest, ...readTemplate("starter") });
  const data = /\$AGENTSERVE_DATA/.test(block.text) ? { AGENTSERVE_DATA: join(cwd, "served.db") } : {};
  // The starter has a provider once it has a secret.
  const strict = block.text.includes("--strict") && { JWT_SECRET: secret };
  const asked = { ...env, ...data, ...strict, AGENTSERVE_URL: "" };
  if (/agentserve call|\$AGENTSERVE_DATA/.test(block.text)) {
    const [url] = await agentserve(["dev"], { cwd, env: asked }).waitFor(/http:\/\/\S+:\d+/);
    asked.AGENTSERVE_URL = url;
    await decide(url, "in-the-file");
  }
  const shell = openShell(cwd, asked);
  for (const command of commands) {
    if (/agentserve (dev|start)\b/.test(command)) {
      const { code, output } = await shell.serve(command, expectStarter);
      expect(code, output).toBe(0);
      const [url] = /http:\S+/.exec(output)!;
      if (command.includes("--open")) await expect.poll(shown).toContain(`${url}/console#t=`);
    } else {
      const { code, output } = await shell.type(command.replaceAll(documented, asked.AGENTSERVE_URL));
      expect(code, `${command}\n${output}`).toBe(0);
      if (command.includes("agentserve")) expect(output, command).not.toBe("");
      if (command.includes(".backup '")) await expectBackup(cwd, /\.backup '(.+)'/.exec(command)![1]!, world);
    }
  }
}

/** What CI itself runs, and with it this test. */
function expectByName(commands: readonly string[]): void {
  const { scripts } = JSON.parse(readFileSync("package.json", "utf8")) as { scripts: Record<string, string> };
  for (const command of commands) expect(scripts).toHaveProperty(/npm (start|test)/.exec(command)![1]!);
  console.log("npm ci && npm start, npm ci && npm test: taken by name, CI runs them");
}

async function expectStarter(url: string): Promise<void> {
  const { data } = (await (await fetch(`${url}/agents`)).json()) as { data: unknown };
  expect(data).toMatchObject([{ id: "assistant" }]);
  await decide(url, "over-http");
}

async function decide(url: string, executionId: string): Promise<void> {
  const body = JSON.stringify({ input: { amount: 5, reason: "a pen" }, options: { executionId } });
  const authorization = `Bearer ${await createToken({ sub: "ada" }, secret)}`;
  const init = { method: "POST", headers: { "content-type": "application/json", authorization }, body };
  const answer = await (await fetch(`${url}/workflows/approval/execute`, init)).json();
  expect(answer).toMatchObject({ data: { executionId, status: "completed", result: { approved: true, amount: 5 } } });
}

/** What was served from the file is served from its copy, which only its owner can read. */
async function expectBackup(cwd: string, copy: string, { tools }: World): Promise<void> {
  expect((statSync(join(cwd, copy)).mode & 0o777).toString(8)).toBe("600");
  const server = agentserve(["start", "--data", copy], { cwd, env: tools.env });
  const [url] = await server.waitFor(/http:\/\/\S+:\d+/);
  const { data } = (await (await fetch(`${url}/workflows/approval/executions`)).json()) as { data: unknown };
  expect(JSON.stringify(data)).toContain("in-the-file");
}
