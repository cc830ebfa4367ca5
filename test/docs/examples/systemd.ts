import { existsSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { parseEnv } from "node:util";
import { expect } from "vitest";
import type { Block } from "./blocks.ts";
import { expectDeployed, readDeployed } from "./deployed.ts";
import { secret } from "./tools.ts";
import type { World } from "./world.ts";

/** `ini`: a unit of systemd, run as it would run it, with the folders that it names inside one of our own. */
export async function runUnit(block: Block, { tools }: World): Promise<void> {
  const unit = parseUnit(block.text);
  const one = (key: string): string => {
    expect(unit.get(key), key).toHaveLength(1);
    return unit.get(key)![0]!;
  };
  const root = tools.project({});
  const inside = (path: string): string => join(root, path);

  const cwd = inside(one("Service.WorkingDirectory"));
  for (const [name, text] of Object.entries(readDeployed())) {
    mkdirSync(dirname(join(cwd, name)), { recursive: true });
    writeFileSync(join(cwd, name), text);
  }
  symlinkSync(join(root, "node_modules"), join(cwd, "node_modules"));
  mkdirSync(inside(`/var/lib/${one("Service.StateDirectory")}`), { recursive: true });
  expect(one("Service.EnvironmentFile")).toMatch(/^-\/etc\//);
  const said = (unit.get("Service.Environment") ?? []).join(" ").split(" ");
  const set = Object.fromEntries(said.map((pair) => pair.split("=") as [string, string]));
  const data = inside(set["AGENTSERVE_DATA"]!);
  const env = { ...tools.env, ...set, ...parseEnv(`JWT_SECRET="${secret}"`), AGENTSERVE_DATA: data };
  const [program, ...args] = one("Service.ExecStart").split(" ");
  // systemd wants a whole path. npx would end on SIGTERM by itself, and leave the server behind.
  expect(program).toBe("/usr/bin/node");
  const command = [process.execPath, ...args];
  await expectDeployed({ command, cwd, env, stopMs: Number(one("Service.TimeoutStopSec")) * 1_000 });
  expect(existsSync(data)).toBe(true);
}

const known = [
  "Unit.Description",
  "Unit.After",
  "Service.User",
  "Service.WorkingDirectory",
  "Service.Environment",
  "Service.EnvironmentFile",
  "Service.StateDirectory",
  "Service.ExecStart",
  "Service.Restart",
  "Service.RestartPreventExitStatus",
  "Service.KillMode",
  "Service.TimeoutStopSec",
  "Service.NoNewPrivileges",
  "Service.ProtectSystem",
  "Service.ProtectHome",
  "Service.PrivateTmp",
  "Install.WantedBy",
];

/** The values of each `Section.Key`. systemd warns of what it does not know, and goes on. */
function parseUnit(text: string): Map<string, string[]> {
  const unit = new Map<string, string[]>();
  let section = "";
  for (const line of text.split("\n")) {
    if (line === "" || line.startsWith("#")) continue;
    const [, name] = /^\[(\w+)\]$/.exec(line) ?? [];
    if (name !== undefined) section = name;
    else {
      const [, key, value] = /^(\w+)=(.*)$/.exec(line) ?? [];
      expect(known, line).toContain(`${section}.${key}`);
      unit.set(`${section}.${key}`, [...(unit.get(`${section}.${key}`) ?? []), value!]);
    }
  }
  return unit;
}
