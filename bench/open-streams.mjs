// The heap of open chat streams: with a conversation, without one, and of further readers of one turn. Controls with the same
// model: the AI SDK alone, and behind node:http. Each is a process of its own. Usage: node bench/open-streams.mjs [streams]
// (after npm run build)
import { fork } from "node:child_process";
import { once } from "node:events";
import { createServer as createHttpServer } from "node:http";
import { loadavg } from "node:os";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const waiting = [];
/** Streams a few words, and never ends. */
const model = {
  specificationVersion: "v4",
  provider: "bench",
  modelId: "endless",
  supportedUrls: {},
  async doStream() {
    async function* parts() {
      yield { type: "stream-start", warnings: [] };
      yield { type: "text-start", id: "1" };
      for (let n = 0; n < 20; n++) yield { type: "text-delta", id: "1", delta: `word${n} ` };
      await new Promise((resolve) => waiting.push(resolve)); // as a socket would, it keeps the stream from the collector
    }
    return { stream: ReadableStream.from(parts()) };
  },
};
const message = { id: "m", role: "user", parts: [{ type: "text", text: "hi" }] };

async function streamAlone() {
  const sdk = await import("ai");
  const streamText = sdk.experimental_streamTextLowMemory ?? sdk.streamText;
  const { stream } = streamText({ model, messages: [{ role: "user", content: "hi" }], onError() {} });
  return stream;
}

const kinds = {
  async agentserve() {
    const { createServer, defineAgent, embedded } = await import("../dist/index.mjs");
    const agent = defineAgent({ id: "a", instructions: "Be kind.", model });
    const server = createServer({
      agents: [agent],
      backend: embedded({ path: ":memory:" }),
      server: { limits: { sseStreamsPerCaller: 5_000 } },
    });
    return Number(new URL((await server.listen({ port: 0 })).url).port);
  },
  async "the SDK behind node:http"() {
    const server = createHttpServer(async (_, response) => {
      for await (const part of await streamAlone()) response.write(`data: ${JSON.stringify(part)}\n\n`);
    });
    await once(server.listen(0, "127.0.0.1"), "listening");
    return server.address().port;
  },
  async "the SDK alone"() {
    return 0;
  },
};

const kept = [];
async function serve(kind) {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc");
  const port = await kinds[kind]();
  process.on("message", async (order) => {
    if (order === "open") {
      const reader = (await streamAlone()).getReader();
      kept.push(reader);
      for (let part; !part?.value?.text?.includes("word19");) part = await reader.read();
      return process.send("opened");
    }
    for (let n = 0; n < 4; n++) {
      await new Promise((resolve) => setTimeout(resolve, 50));
      gc();
    }
    process.send(process.memoryUsage().heapUsed);
  });
  process.send(port);
}

async function measure(kind, cases, count) {
  const child = fork(import.meta.filename, ["serve", kind]);
  const [port] = await once(child, "message");
  const tell = async (order) => {
    const reply = once(child, "message");
    child.send(order);
    return (await reply)[0];
  };
  for (const [name, open] of Object.entries(cases)) {
    for (let n = 0; n < 20; n++) await open(port, `warm-${n}`, tell);
    const before = await tell("heap");
    for (let n = 0; n < count; n++) await open(port, `open-${n}`, tell);
    const each = ((await tell("heap")) - before) / count / 1_024;
    console.log(`${each.toFixed(1).padStart(8)} KB  ${kind}: ${name}`);
  }
  child.kill();
}

async function readWords(response) {
  if (response.status !== 200) throw new Error(`${response.status} ${await response.text()}`);
  const reader = response.body.getReader();
  kept.push(reader);
  for (let text = ""; !text.includes("word19");) text += Buffer.from((await reader.read()).value).toString();
}
const chat = (options) => (port, id) =>
  fetch(`http://127.0.0.1:${port}/agents/a/chat`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ input: [message], options: options(id) }),
  }).then(readWords);

if (process.argv[2] === "serve") await serve(process.argv[3]);
else {
  const count = Number(process.argv[2] ?? 500);
  const cases = {
    "with a conversation": chat((conversationId) => ({ conversationId })),
    "without a conversation": chat(() => ({})),
    "a further reader of a turn": (port) =>
      fetch(`http://127.0.0.1:${port}/agents/a/chat/open-0/stream`).then(readWords),
  };
  await measure("agentserve", cases, count);
  await measure(
    "the SDK behind node:http",
    { stream: (port) => fetch(`http://127.0.0.1:${port}`).then(readWords) },
    count,
  );
  await measure("the SDK alone", { stream: (_port, _id, tell) => tell("open") }, count);
  console.log(`${count} streams, load of the machine ${loadavg()[0].toFixed(1)}`);
  process.exit();
}
