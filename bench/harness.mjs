// Each server is a separate process, and the servers take turns within one run. Only ratios within one run are
// meaningful.
import { fork, spawn } from "node:child_process";
import { once } from "node:events";

/** Runs the server if this process was forked for it. Otherwise forks one process per variant. */
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

/** Puts load on one server. Returns requests per second, latencies, and the server's CPU in µs per request. */
export async function measure({ child, port }, { connections, seconds, method, path, body = "", headers = "" }) {
  const before = await cpu(child);
  const args = ["bench/load.mjs", port, connections, seconds, method, path, body, headers].map(String);
  const loader = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "inherit"] });
  const [text] = await once(loader.stdout, "data");
  const result = JSON.parse(text);
  if (result.failed) throw new Error(`${result.failed} requests failed`);
  return { ...result, cpu: ((await cpu(child)) - before) / result.count };
}

export async function cpu(child) {
  child.send("cpu");
  const [{ user, system }] = await once(child, "message");
  return user + system;
}

/**
 * Loads the servers in turns, in alternating order. Prints the figures of each server and the median of its ratios to
 * the first one. `request` may depend on the name of the server.
 */
export async function compare(servers, request, { rounds, connections }) {
  const names = Object.keys(servers);
  const requestOf = typeof request === "function" ? request : () => request;
  const results = Object.fromEntries(names.map((name) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const name of round % 2 === 0 ? names : names.toReversed())
      results[name].push(await measure(servers[name], { ...requestOf(name), connections }));
  }
  const [first] = names;
  for (const name of names) {
    const of = (key) => median(results[name].map((one) => one[key])).toFixed(key === "rps" ? 0 : 1);
    // On a busy machine, the round with the least contention says most.
    const minP99 = Math.min(...results[name].map(({ p99 }) => p99)).toFixed(1);
    const ratios = results[name].map(({ rps }, round) => rps / results[first][round].rps);
    const [least, most] = [Math.min(...ratios), Math.max(...ratios)].map((ratio) => ratio.toFixed(3));
    console.log(
      `${connections} connections  ${name.padEnd(10)} ${of("rps")}/s  p50 ${of("p50")} ms  p99 ${of("p99")} ms (least ${minP99})  p99.9 ${of("p999")} ms  ` +
        `${of("cpu")} µs CPU  median of ${rounds} ratios ${median(ratios).toFixed(3)} (${least} to ${most})`,
    );
  }
}

export const median = (list) => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];
