import { appendFileSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { expect } from "vitest";
import { agentserve, type Child } from "../../harness/cli.ts";
import type { Block } from "./blocks.ts";
import { readTemplate } from "./tools.ts";
import type { World } from "./world.ts";

/** `text`: what `dev` prints after saves that it can load. */
export async function runSaves(block: Block, world: World): Promise<void> {
  const { child, cwd } = await openDev(world);
  const lines = block.text.trimEnd().split("\n");
  for (const [at, line] of lines.entries()) {
    const [, what] = /^✓ (.+?) · \d+ ms$/.exec(line) ?? [];
    if (what !== undefined) save(cwd, what, lines[at + 1]);
    await expect.poll(() => toSaid(child).length, { message: line }).toBeGreaterThan(at);
  }
  await expect.poll(() => toSaid(child)).toEqual(lines.map(withoutTime)); // a line may arrive in parts
}

/** `text`: what `dev` prints after a save that it cannot load. The config that it is about stands in the code frame. */
export async function runBadSave(block: Block, world: World): Promise<void> {
  const { child, cwd, url } = await openDev(world);
  const lines: string[] = [`import { defineConfig } from "agentserve";`];
  for (const [, number, text = ""] of block.text.matchAll(/^[> ] +(\d+) \|(?: (.*))?$/gm))
    lines[Number(number) - 1] = text;
  const before = child.output().stderr;
  writeFileSync(join(cwd, "agents.config.ts"), Array.from(lines, (line) => line ?? "").join("\n"));
  const said = () => child.output().stderr.slice(before.length);
  await expect.poll(said).toBe(block.text);
  const [message] = /(?<=^error ).*/.exec(block.text)!;
  const page = async () => (await fetch(url)).text();
  expect(await page()).toContain(message.split("?")[0]);
  expect((await fetch(`${url}/health`)).status).toBe(200);
  writeFileSync(join(cwd, "agents.config.ts"), config("0"));
  await expect.poll(page).not.toContain(message.split("?")[0]);
}

const config = (port: string): string => `import { defineConfig } from "agentserve";

export default defineConfig({
  server: { port: ${port}, cors: { origin: [] } },
  configureApp: (app) => void app.get("/health", () => ({ ok: true })),
});
`;

/** A project that `dev` serves and watches already. */
async function openDev({ tools }: World): Promise<{ child: Child; cwd: string; url: string }> {
  const { "workflows/approval.ts": approval } = readTemplate("starter");
  const cwd = tools.project({ "agents.config.ts": config("0"), "workflows/approval.ts": approval! });
  const child = agentserve(["dev"], { cwd, env: { ...tools.env, PORT: "" } });
  const [url] = await child.waitFor(/http:\/\/\S+:\d+/);
  const isWatched = () => {
    appendFileSync(join(cwd, ".env"), "#\n");
    return child.output().stdout;
  };
  await expect.poll(isWatched, { interval: 250 }).toContain("✓ .env changed");
  rmSync(join(cwd, ".env"));
  await child.waitFor(/✓ \.env removed.*\n/); // and with it all that was said of it before
  return { child, cwd, url };
}

/** The save that is reported so. */
function save(cwd: string, what: string, next = ""): void {
  const [kind, id, change] = what.split(" ");
  const file = join(`${kind}s`, `${id}.ts`);
  if (what === "agents.config.ts changed" && next.startsWith("! port")) {
    return write(cwd, "agents.config.ts", config("8080"));
  }
  if (kind === "workflow" && change === "changed")
    return write(cwd, file, `${readFileSync(join(cwd, file), "utf8")}// saved\n`);
  if (kind === "agent" && change === "added") {
    const agent = readTemplate("starter")["agents/assistant.ts"]!.replace(`id: "assistant"`, `id: "${id}"`);
    return write(cwd, file, agent);
  }
  throw new Error(`Nobody knows which save is reported as ${JSON.stringify(what)}`);
}

/** Replaces a file in one step, as most editors do: one that is written in place may be reported twice. */
function write(cwd: string, file: string, text: string): void {
  const saving = join(cwd, ".saving");
  writeFileSync(saving, text);
  mkdirSync(dirname(join(cwd, file)), { recursive: true });
  renameSync(saving, join(cwd, file));
}

const withoutTime = (line: string): string => line.replace(/\d+ ms$/, "… ms");

/** The lines about saves. A busy machine reports a save of `.env` late, on a line of its own or beside the next save. */
const toSaid = (child: Child): string[] =>
  child
    .output()
    .stdout.replace(/^[^]*?✓ \.env removed.*\n/, "")
    .replaceAll(/^✓ \.env \w+ · .*$|(?<=^✓ .*), \.env \w+|(?<=^✓ )\.env \w+, /gm, "")
    .split("\n")
    .filter((line) => line !== "")
    .map(withoutTime);
