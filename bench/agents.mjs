// Calls an agent whose model answers at once: `text`, compared with bare node:http and with the AI SDK alone behind
// node:http. Then 50 concurrent streams of 500 deltas, the commits of a turn of a conversation, and the heap of an open
// stream. AGAINST=<folder of another commit, built> compares with that commit. Usage: node bench/agents.mjs [rounds]
// [seconds] (after npm run build)
import { once } from "node:events";
import { createServer as createHttpServer, request as httpRequest } from "node:http";
import { loadavg } from "node:os";
import { resolve as resolvePath } from "node:path";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
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
/** Streams a few words, and never ends. */
const endless = {
  ...model,
  async doStream() {
    async function* parts() {
      yield { type: "stream-start", warnings: [] };
      yield { type: "text-start", id: "1" };
      for (let n = 0; n < 20; n++) yield { type: "text-delta", id: "1", delta: `word${n} ` };
      await new Promise(() => {});
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
  agentserve: () => serveAgents("../dist/index.mjs"),
  ...(process.env.AGAINST && { before: () => serveAgents(resolvePath(process.env.AGAINST, "dist/index.mjs")) }),
};

async function serveAgents(file) {
  const { createServer, defineAgent, embedded } = await import(file);
  setFlagsFromString("--expose-gc");
  const collect = runInNewContext("gc");
  const server = createServer({
    agents: [
      defineAgent({ id: "instant", instructions, model }),
      defineAgent({ id: "endless", instructions, model: endless }),
    ],
    backend: embedded({ path: ":memory:" }),
    server: { limits: { modelGapMs: 3_600_000 } },
    configureApp: (app) =>
      app.get("/heap", () => {
        collect();
        return process.memoryUsage().heapUsed;
      }),
  });
  return (await server.listen({ port: 0 })).port;
}

/** Begins a turn of a conversation by `chat`. */
async function chat(port, agent, conversationId) {
  const input = [{ id: "question", role: "user", parts: [{ type: "text", text: "hi" }] }];
  const response = await fetch(`http://127.0.0.1:${port}/agents/${agent}/chat`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ id: conversationId, input }),
  });
  if (!response.ok) throw new Error(await response.text());
  return response;
}

async function readCommits(port) {
  const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
  return Number(/^agentserve_store_write_duration_seconds_count (\d+)/m.exec(text)?.[1] ?? 0);
}

/** Counts the commits of turns with one model call, one after the other. */
async function countCommits(port, turns) {
  const before = await readCommits(port);
  for (let n = 0; n < turns; n++) await (await chat(port, "instant", `commits-${n}`)).text();
  await new Promise((resolve) => setTimeout(resolve, 200)); // the last turn ends after its stream
  return ((await readCommits(port)) - before) / turns;
}

const readHeap = async (port) => Number(await (await fetch(`http://127.0.0.1:${port}/heap`)).text());

/** Opens streams of turns that do not end. Returns the heap of each in KB, connections included. */
async function measureHeap(port, streams) {
  await openStreams(port, 20, "warm");
  const before = await readHeap(port);
  await openStreams(port, streams, "open");
  return ((await readHeap(port)) - before) / streams / 1_024;
}

const opened = [];
async function openStreams(port, count, name) {
  for (let n = 0; n < count; n++) await readWords(await chat(port, "endless", `${name}-${n}`));
}

async function readWords({ body }) {
  const reader = body.getReader();
  opened.push(reader);
  let text = "";
  while (!text.includes("word19")) text += Buffer.from((await reader.read()).value).toString();
}

/** Opens further streams of one turn. Returns the heap of each in KB. */
async function measureReaders(port, readers) {
  const before = await readHeap(port);
  for (let n = 0; n < readers; n++)
    await readWords(await fetch(`http://127.0.0.1:${port}/agents/endless/chat/open-0/stream`));
  return ((await readHeap(port)) - before) / readers / 1_024;
}

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
  const { before, agentserve } = servers;
  if (before) await compare({ before, agentserve }, request, { rounds, connections: 16 });
  for (const [name, server] of Object.entries({ ...(before && { before }), agentserve })) {
    const commits = await countCommits(server.port, 100);
    const heap = await measureHeap(server.port, 500);
    console.log(
      `${name.padEnd(10)} ${commits.toFixed(2)} commits per turn  ${heap.toFixed(1)} KB heap per open stream`,
    );
  }
  const more = await measureReaders(agentserve.port, 500);
  console.log(`${more.toFixed(1)} KB heap per further reader of a stream`);
  console.log(`load of the machine ${loadavg()[0].toFixed(1)}`);
  for (const { child } of Object.values(servers)) child.kill();
}
