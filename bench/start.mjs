// The start-up time: `--help`, and the first response of `dev` and `start` on the starter, compared with `node -e 0`.
// They take turns, each as a separate process. Build first (npx tsdown).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const rounds = Number(process.argv[2] ?? 9);
const bin = resolve("bin/agentserve.mjs");
const folder = mkdtempSync(join(tmpdir(), "agentserve-bench-"));
cpSync("templates/starter", folder, { recursive: true, filter: (path) => !path.includes(".agentserve") });
symlinkSync(resolve("node_modules"), join(folder, "node_modules"));

async function run(args) {
  const began = performance.now();
  await once(spawn(process.execPath, args, { stdio: "ignore" }), "exit");
  return performance.now() - began;
}

async function firstAnswer(command) {
  const began = performance.now();
  const server = spawn(process.execPath, [bin, command, "--port", "0"], {
    cwd: folder,
    stdio: ["ignore", "pipe", "inherit"],
  });
  let text = "";
  for await (const chunk of server.stdout) {
    text += chunk;
    const [url] = /https?:\/\/\S+?:\d+/.exec(text) ?? [];
    if (!url) continue;
    const response = await fetch(`${url}/agents`);
    if (!response.ok) throw new Error(`${url}/agents answered ${response.status}`);
    await response.text();
    break;
  }
  const took = performance.now() - began;
  server.kill("SIGKILL");
  await once(server, "exit");
  return took;
}

const variants = {
  "node -e 0": () => run(["-e", "0"]),
  "agentserve --help": () => run([bin, "--help"]),
  "agentserve dev, to its first answer": () => firstAnswer("dev"),
  "agentserve start, to its first answer": () => firstAnswer("start"),
};
const times = Object.fromEntries(Object.keys(variants).map((name) => [name, []]));
for (let round = 0; round <= rounds; round++) {
  for (const [name, measure] of Object.entries(variants)) {
    const took = await measure();
    if (round > 0) times[name].push(took); // the first round fills caches
  }
}
rmSync(folder, { recursive: true, force: true });

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const bare = median(times["node -e 0"]);
for (const [name, list] of Object.entries(times)) {
  const [least, most] = [Math.min(...list), Math.max(...list)].map(Math.round);
  console.log(
    `${name.padEnd(38)} ${String(Math.round(median(list))).padStart(5)} ms  (${least}–${most})  ${(median(list) / bare).toFixed(1)}×`,
  );
}
