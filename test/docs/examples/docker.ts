import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { Block } from "./blocks.ts";
import { expectDeployed, readDeployed } from "./deployed.ts";
import { secret } from "./tools.ts";
import type { World } from "./world.ts";

const stopMs = 10_000; // what docker itself waits for before it kills

/** `dockerfile`: done instruction by instruction, with a folder in place of the image. */
export async function runDockerfile(block: Block, { tools }: World): Promise<void> {
  const context = tools.project(readDeployed());
  const image = tools.project({});
  const inside = (path: string): string => join(image, path);
  const env: NodeJS.ProcessEnv = {};
  const volumes: string[] = [];
  let cwd = image;
  let command: string[] | undefined;

  for (const line of block.text.trim().split("\n")) {
    const [, instruction, rest = ""] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    const words = rest.split(" ");
    if (instruction === "FROM") expectNode(rest);
    else if (instruction === "WORKDIR") mkdirSync((cwd = inside(rest)), { recursive: true });
    else if (instruction === "COPY") {
      for (const from of words.slice(0, -1)) {
        const filter = (path: string) => !path.endsWith("node_modules"); // as .dockerignore says
        cpSync(join(context, from), join(cwd, words.at(-1)!, from), { recursive: true, filter });
      }
    } else if (instruction === "RUN") execFileSync("sh", ["-c", rest], { cwd, env: tools.env });
    else if (instruction === "ENV") Object.assign(env, Object.fromEntries(words.map((pair) => pair.split("="))));
    else if (instruction === "VOLUME") volumes.push(rest);
    else if (instruction === "EXPOSE") expect(rest).toBe(env["PORT"]);
    else if (instruction === "HEALTHCHECK") expect(rest).toContain(`http://127.0.0.1:${env["PORT"]}/health`);
    else if (instruction === "CMD") command = JSON.parse(rest) as string[];
    else throw new Error(`Nobody knows how to do ${JSON.stringify(line)}`);
  }

  const data = env["AGENTSERVE_DATA"]!;
  expect(volumes.some((volume) => data.startsWith(`${volume}/`))).toBe(true);
  for (const volume of volumes) mkdirSync(inside(volume), { recursive: true });
  const given = { ...tools.env, ...env, AGENTSERVE_DATA: inside(data), JWT_SECRET: secret };
  const [program, ...args] = command!;
  expect(program).toBe("node"); // npx would not pass SIGTERM on
  await expectDeployed({ command: [process.execPath, ...args], cwd, env: given, stopMs });
  expect(existsSync(inside(data))).toBe(true);
}

function expectNode(image: string): void {
  const { engines } = JSON.parse(readFileSync("package.json", "utf8")) as { engines: { node: string } };
  const [, least] = /^>=(\d+)/.exec(engines.node)!;
  expect(Number(/^node:(\d+)/.exec(image)?.[1])).toBeGreaterThanOrEqual(Number(least));
}
