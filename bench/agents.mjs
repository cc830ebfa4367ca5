// Calls an agent whose model answers at once: `text`, compared with bare node:http and with the AI SDK alone behind
// node:http. Then 50 concurrent streams of 500 deltas. Usage: node bench/agents.mjs [rounds] [seconds] (after npm run
// build)
import { once } from "node:events";
import { createServer as createHttpServer, request as httpRequest } from "node:http";
import { compare, measure, startVariants } from "./harness.mjs";

const usage = {
  inputTokens: { total: 3, noCache: 3, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 2, text: 2, reasoning: 0 },
};
const end = { usage, finishReason: { unified: "stop", raw: "stop" } };
const deltas = 500;
const model = {
  specificationVersion: "v4",
  provider: "bench",
  modelId: "instant",
  supportedUrls: {},
  async doGenerate() {
    return { content: [{ type: "text", text: "Hello there" }], warnings: [], ...end };
  },
  async doStream() {
    async function* parts() {
      yield { type: "stream-start", warnings: [] };
      yield { type: "text-start", id: "1" };
      for (let n = 0; n < deltas; n++) yield { type: "text-delta", id: "1", delta: `word${n} ` };
      yield { type: "text-end", id: "1" };
      yield { type: "finish", ...end };
    }
    return { stream: ReadableStream.from(parts()) };
  },
};
const instructions = "Be kind.";
const data = {
  text: "Hello there",
  finishReason: "stop",
  usage: { inputTokens: 3, outputTokens: 2, totalTokens: 5, reasoningTokens: 0, cachedInputTokens: 0 },
  toolCalls: [],
  toolResults: [],
  steps: 1,
};

/** A bare node:http server that parses and sends JSON. */
async function serve(answer) {
  const server = createHttpServer((req, res) => {
    let text = "";
    req.setEncoding("utf8").on("data", (chunk) => (text += chunk));
    req.on("end", async () => {
      const body = JSON.stringify({ success: true, data: await answer(JSON.parse(text)) });
      res.writeHead(200, { "content-type": "application/json", "content-length": body.length }).end(body);
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server.address().port;
}

const variants = {
  bare: () => serve(() => data),
  async sdk() {
    const { generateText, isStepCount } = await import("ai");
    return serve(async ({ input }) => {
      const { text } = await generateText({ model, instructions, prompt: input, stopWhen: isStepCount(10) });
      return { ...data, text };
    });
  },
  async agentserve() {
    const { createServer, defineAgent, embedded } = await import("../dist/index.mjs");
    const agent = defineAgent({ id: "instant", instructions, model });
    const server = createServer({ agents: [agent], backend: embedded({ path: ":memory:" }) });
    return (await server.listen({ port: 0 })).port;
  },
};

/** Opens `count` streams at once and reads them to the end. */
async function readStreams(port, count) {
  const body = JSON.stringify({ input: "hi" });
  const firsts = [];
  let events = 0;
  const start = performance.now();
  const read = () =>
    new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": body.length };
      const options = {
        port,
        host: "127.0.0.1",
        method: "POST",
        path: "/agents/instant/stream",
        headers,
        agent: false,
      };
      const sent = httpRequest(options, (response) => {
        let isFirst = true;
        let text = "";
        response.setEncoding("utf8").on("data", (chunk) => {
          if (isFirst) firsts.push(performance.now() - start);
          isFirst = false;
          text += chunk;
        });
        response.on("end", () => {
          if (!text.includes('"type":"finish"')) return reject(new Error("a stream did not finish"));
          events += text.split("\n\n").length - 1;
          return resolve();
        });
      });
      sent.on("error", reject).end(body);
    });
  await Promise.all(Array.from({ length: count }, read));
  const seconds = (performance.now() - start) / 1_000;
  firsts.sort((a, b) => a - b);
  return { eventsPerSecond: events / seconds, first: firsts[0], median: firsts[count / 2], last: firsts.at(-1) };
}

const servers = await startVariants(import.meta.filename, variants);
if (servers) {
  const [rounds = 9, seconds = 1] = process.argv.slice(2).map(Number);
  const request = { seconds, method: "POST", path: "/agents/instant/text", body: JSON.stringify({ input: "hi" }) };
  // Warm-up, until the JIT has compiled the hot code.
  for (const server of Object.values(servers)) await measure(server, { ...request, seconds: 5, connections: 16 });
  for (const connections of [16, 64]) await compare(servers, request, { rounds, connections });
  const { port } = servers.agentserve;
  for (let round = 0; round < 3; round++) await readStreams(port, 50);
  for (let round = 0; round < 3; round++) {
    const { eventsPerSecond, first, median, last } = await readStreams(port, 50);
    console.log(
      `50 streams of ${deltas} deltas  ${Math.round(eventsPerSecond)} events/s  first event after ${first.toFixed(1)} ms, median ${median.toFixed(1)} ms, last ${last.toFixed(1)} ms`,
    );
  }
  const one = await readStreams(port, 1);
  console.log(
    `1 stream of ${deltas} deltas  ${Math.round(one.eventsPerSecond)} events/s  first event after ${one.first.toFixed(1)} ms`,
  );
  for (const { child } of Object.values(servers)) child.kill();
}
