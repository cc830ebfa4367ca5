// A server, as built, in a process of its own: node host.mjs <dist> <constants as JSON>. `verbatim` says what it is told.
const [dist, constants] = process.argv.slice(2);
const { createServer, defineAgent, embedded } = await import(dist + "/index.mjs");
const { echoModel } = await import(dist + "/models.mjs");
const usage = { inputTokens: { total: 1 }, outputTokens: { total: 1 } };
const end = { usage, finishReason: { unified: "stop", raw: "stop" } };
const said = ({ prompt }) =>
  prompt
    .findLast(({ role }) => role === "user")
    .content.map(({ text }) => text)
    .join("");
function* parts(text) {
  yield { type: "stream-start", warnings: [] };
  yield { type: "text-start", id: "t" };
  for (let at = 0; at < text.length; at += 2_000)
    yield { type: "text-delta", id: "t", delta: text.slice(at, at + 2_000) };
  yield { type: "text-end", id: "t" };
  yield { type: "finish", ...end };
}
const verbatim = {
  specificationVersion: "v4",
  provider: "test",
  modelId: "verbatim",
  supportedUrls: {},
  doGenerate: async (options) => ({ content: [{ type: "text", text: said(options) }], warnings: [], ...end }),
  doStream: async (options) => ({ stream: ReadableStream.from(parts(said(options))) }),
};
const agents = [
  ["verbatim", verbatim],
  ["echo", echoModel()],
];
const server = createServer({
  agents: agents.map(([id, model]) => defineAgent({ id, model, instructions: "" })),
  backend: embedded({ path: ":memory:" }),
  [Symbol.for("agentserve.constants")]: JSON.parse(constants),
});
const prototypes = [Object, Array, String, Function, Promise].map(({ prototype }) => prototype);
const names = () => prototypes.map((prototype) => Reflect.ownKeys(prototype).map(String).join());
const before = names();
const { url } = await server.listen({ port: 0 });
process.on("message", (message) => {
  const { user, system } = process.threadCpuUsage();
  if (message === "collect") globalThis.gc();
  const polluted = JSON.stringify(names()) !== JSON.stringify(before) || {}.polluted !== undefined;
  process.send({ cpu: (user + system) / 1e3, heap: process.memoryUsage().heapUsed, polluted });
});
process.send(url);
