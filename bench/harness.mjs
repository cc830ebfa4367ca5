// Servers as processes of their own, asked in turns within one run: only ratios of such a run mean anything.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";

/** Runs as the server when this process was forked for that; otherwise forks one process per variant. */
export async function startVariants(file, variants) {
  if (process.argv[2] === "serve") {
    process.send(await variants[process.argv[3]]());
    process.on("message", () => process.send(process.cpuUsage()));
    return undefined;
  }
  const servers = {};
  for (const name of Object.keys(variants)) {
    const child = fork(file, ["serve", name]);
    const [port] = await once(child, "message");
    servers[name] = { child, port };
  }
  return servers;
}

/** Load on one server: requests per second, latencies, and the server's CPU in µs per request. */
export async function measure({ child, port }, { connections, seconds, method, path, body }) {
  const before = await cpu(child);
  const args = ["bench/load.mjs", port, connections, seconds, method, path, body].map(String);
  const loader = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [text] = await once(loader.stdout, "data");
  const result = JSON.parse(text);
  if (result.failed) throw new Error(`${result.failed} requests failed`);
  return { ...result, cpu: ((await cpu(child)) - before) / result.count };
}

async function cpu(child) {
  child.send("cpu");
  const [{ user, system }] = await once(child, "message");
  return user + system;
}

export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
