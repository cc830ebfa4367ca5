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
export async function measure({ child, port }, { connections, seconds, method, path, body = "", headers = "" }) {
  const before = await cpu(child);
  const args = ["bench/load.mjs", port, connections, seconds, method, path, body, headers].map(String);
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

/** Loads the servers in turns, and prints each one's figures and its rate beside that of the first. */
export async function compare(servers, request, { rounds, connections }) {
  const results = Object.fromEntries(Object.keys(servers).map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const [name, server] of Object.entries(servers))
      results[name].push(await measure(server, { ...request, connections }));
  }
  const [first] = Object.keys(servers);
  const of = (name, key) => median(results[name].map((one) => one[key]));
  for (const name of Object.keys(servers)) {
    const [rps, p50, p99, used] = ["rps", "p50", "p99", "cpu"].map((key) =>
      of(name, key).toFixed(key === "rps" ? 0 : 1),
    );
    const ratio = (of(name, "rps") / of(first, "rps")).toFixed(3);
    console.log(
      `${connections} connections  ${name.padEnd(10)} ${rps}/s  p50 ${p50} ms  p99 ${p99} ms  ${used} µs CPU  ratio of the medians ${ratio}`,
    );
  }
}

export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
