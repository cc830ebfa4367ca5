// A load generator in a separate process, on raw keep-alive sockets with one request in flight on each. Prints requests
// per second and latencies as JSON.
// Usage: node bench/load.mjs <port> <connections> <seconds> <method> <path> [body] [headers]
// Each request has another id in place of `{id}` in the path.
import { connect } from "node:net";

const [port, connections, seconds, method, path, body = "", headers = ""] = process.argv.slice(2);
const type = body ? `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n` : "";
const toRequest = (target) =>
  Buffer.from(`${method} ${target} HTTP/1.1\r\nHost: localhost\r\n${type}${headers}\r\n${body}`);
const request = path.includes("{id}") ? undefined : toRequest(path);
const latencies = [];
let failed = 0;
const start = performance.now();
const end = start + Number(seconds) * 1000;

await Promise.all(Array.from({ length: Number(connections) }, drive));
// To the last answer: with slow answers, those after the end are many.
const elapsed = (performance.now() - start) / 1000;
latencies.sort((a, b) => a - b);
const at = (share) => latencies[Math.floor(latencies.length * share)] ?? 0;
console.log(
  JSON.stringify({
    rps: latencies.length / elapsed,
    p50: at(0.5),
    p99: at(0.99),
    p999: at(0.999),
    count: latencies.length,
    failed,
  }),
);

function drive() {
  return new Promise((done) => {
    const socket = connect(Number(port), "127.0.0.1");
    let sent = 0;
    let got = "";
    const send = () => {
      if (performance.now() >= end) return socket.destroy();
      sent = performance.now();
      socket.write(request ?? toRequest(path.replace("{id}", crypto.randomUUID())));
    };
    socket.setNoDelay(true).setEncoding("latin1");
    socket.on("connect", send);
    socket.on("error", () => failed++);
    socket.on("close", done);
    socket.on("data", (chunk) => {
      got += chunk;
      const headEnd = got.indexOf("\r\n\r\n");
      if (headEnd < 0) return;
      const length = /content-length: (\d+)/i.exec(got);
      if (!length || got.length - headEnd - 4 < Number(length[1])) return;
      if (!got.startsWith("HTTP/1.1 2")) failed++;
      latencies.push(performance.now() - sent);
      got = "";
      send();
    });
  });
}
