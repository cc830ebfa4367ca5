import { inspect } from "node:util";
import { join } from "node:path";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import * as v from "valibot";
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, onTestFinished, vi } from "vitest";
import * as agentserve from "agentserve";
import { defineAgent, defineTool, type AgentDefinition, type DefineAgentOptions } from "agentserve";
import * as models from "agentserve/models";
import { createLoader, findConfig } from "../../src/config/load.ts";
import { openServer } from "../../src/server/create.ts";
import { createClient, type Answer, type Client, type Send } from "../harness/client.ts";
import { createProject } from "../harness/project.ts";
import { createTestLogger, describeServer, startServer, type LogRecord, type TestServer } from "../harness/server.ts";
import { within } from "../harness/waiting.ts";
import { createProvider, type Behaviour, type Exchange } from "./provider.ts";

// What nobody outside may ever read.
const apiKey = "sk-KEY-4d7a";
const instructions = "You are INSTRUCTIONS-9b2e.";
const providerBody = "PROVIDER-BODY-6c1f";
/** Nothing may take longer; what hangs fails. */

const endpoints = ["text", "object", "stream", "stream-object", "chat"] as const;
type Endpoint = (typeof endpoints)[number];
const streams: readonly Endpoint[] = ["stream", "stream-object", "chat"];
const isStream = (endpoint: Endpoint): boolean => streams.includes(endpoint);
const givesObject = (endpoint: Endpoint): boolean => endpoint === "object" || endpoint === "stream-object";

const schema = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "number" } },
  required: ["city", "people"],
  additionalProperties: false,
};
/** What a healthy model says. The beginning names the prompt, so that a test knows when its client has seen it. */
const beginningOf = (prompt: string): string => `{"city":"FIRST(${prompt})`;
const piecesOf = (prompt: string): string[] => [beginningOf(prompt), ' Bern"', ',"people":3}'];
const objectOf = (prompt: string) => ({ city: `FIRST(${prompt}) Bern`, people: 3 });
const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 };
const healthy: Behaviour = (exchange) => exchange.say({ text: piecesOf(exchange.prompt), usage });

/** The beginning of the answer; or that a tool was called, which is no event of `stream-object`. */
type Begun = "answer" | "tool";
interface Trouble {
  readonly does: string;
  readonly behave: Behaviour;
  readonly status: 502 | 504;
  /** What the client of a stream has seen by then. */
  readonly begun?: Begun;
  /** Whether the provider leaves the connection open, so that the server must close it. */
  readonly open?: boolean;
  readonly on?: readonly Endpoint[];
  /** How often the agent asks again. @default 0 */
  readonly maxRetries?: number;
  /** What the log must say of it. */
  readonly logged?: readonly string[];
}

/** Answers with an error of the provider. */
const refuses = (status: number, body: string, headers: Record<string, string> = {}): Behaviour => {
  return ({ response }) => void response.writeHead(status, { "x-provider": providerBody, ...headers }).end(body);
};
const errorBody = (message: string): string => JSON.stringify({ error: { message: `${message} ${providerBody}` } });
/** A stream that has come as far as the client, and then. */
const begins = (go: Behaviour): Behaviour => {
  return async (exchange) => {
    exchange.open();
    exchange.delta({ role: "assistant", content: beginningOf(exchange.prompt) });
    await exchange.seen;
    await go(exchange);
  };
};
/** Half of a JSON answer, and then. */
const halfOf = ({ response }: Exchange): void =>
  void response
    .writeHead(200, { "content-type": "application/json" })
    .write(`{"id":"${providerBody}","choices":[{"mes`);
/** Answers with this, whatever was asked for. */
const sends = (text: string, type: string): Behaviour => {
  return ({ response }) => void response.writeHead(200, { "content-type": type }).end(text);
};
const megabytes = "x".repeat(10_000_000);
const page = `<!doctype html><title>${providerBody}</title>`;
const wholeJson = JSON.stringify({
  id: providerBody,
  choices: [{ message: { role: "assistant", content: '{"city":"a","people":1}' }, finish_reason: "stop" }],
});
const wholeStream = `data: ${JSON.stringify({ id: providerBody, choices: [{ delta: { content: "a" }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`;

/** One line in the place of an answer, or of its first event; the stream stays open. */
const firstLine = (line: string): Behaviour => {
  return (exchange) => {
    if (!exchange.streamed) return sends(line, "application/json")(exchange);
    exchange.open();
    exchange.line(line);
  };
};

const beforeTheAnswer: Record<string, Trouble> = {
  "status-401": {
    does: "refuses with 401",
    status: 502,
    behave: refuses(401, errorBody("wrong key")),
    logged: ["401", `wrong key ${providerBody}`],
  },
  "status-404": {
    does: "refuses with 404",
    status: 502,
    behave: refuses(404, errorBody("no such model")),
    logged: ["404", "no such model"],
  },
  "status-429": {
    does: "refuses with 429",
    status: 502,
    behave: refuses(429, errorBody("slow down")),
    logged: ["429", "slow down"],
  },
  "status-500": {
    does: "refuses with 500",
    status: 502,
    behave: refuses(500, errorBody("on fire")),
    logged: ["500", "on fire"],
  },
  "status-503": { does: "refuses with a page", status: 502, behave: refuses(503, page), logged: ["503"] },
  "status-empty": { does: "refuses with nothing", status: 502, behave: refuses(500, ""), logged: ["500"] },
  refused: { does: "is not there", status: 502, behave: healthy, logged: ["ECONNREFUSED"] },
  reset: {
    does: "resets the connection at once",
    status: 502,
    behave: ({ socket }) => void socket.resetAndDestroy(),
    logged: ["ECONNRESET"],
  },
  garbage: {
    does: "does not speak HTTP",
    status: 502,
    behave: ({ socket }) => void socket.end(`${providerBody}\r\n\r\n`),
  },
  encoding: {
    does: "says gzip and sends something else",
    status: 502,
    behave: ({ response }) => void response.writeHead(200, { "content-encoding": "gzip" }).end(wholeStream + wholeJson),
  },
  empty: { does: "sends an empty body", status: 502, behave: sends("", "application/json") },
  page: { does: "sends a page", status: 502, behave: sends(page, "text/html") },
  "other-form": {
    does: "sends JSON for events, events for JSON",
    status: 502,
    behave: (exchange) =>
      (exchange.streamed ? sends(wholeJson, "application/json") : sends(wholeStream, "text/event-stream"))(exchange),
  },
  broken: { does: "sends broken JSON", status: 502, open: true, behave: firstLine(`{"id":"${providerBody}"`) },
  types: { does: "sends wrong types", status: 502, open: true, behave: firstLine(`{"choices":"${providerBody}"}`) },
  null: { does: "sends null", status: 502, open: true, behave: firstLine("null") },
  choiceless: {
    does: "sends no choice",
    status: 502,
    behave: (exchange) => sends(exchange.streamed ? 'data: {"choices":[]}\n\n' : '{"choices":[]}', "a/b")(exchange),
  },
  "error-object": {
    does: "says 200 and means an error",
    status: 502,
    open: true,
    behave: firstLine(errorBody("overloaded")),
  },
  huge: {
    does: "sends 10 MB of broken JSON in one line",
    status: 502,
    open: true,
    on: ["text", "stream", "chat"],
    behave: firstLine(`{"id":"${providerBody}${megabytes}`),
  },
};

const withinTheAnswer: Record<string, Trouble> = {
  "mid-cut": {
    does: "cuts the connection in the middle",
    status: 502,
    begun: "answer",
    behave: (exchange) => {
      if (exchange.streamed) return begins(({ socket }) => void socket.resetAndDestroy())(exchange);
      halfOf(exchange);
      exchange.response.write(" ", () => exchange.socket.destroy());
    },
  },
  "mid-end": {
    does: "ends in the middle",
    status: 502,
    begun: "answer",
    behave: (exchange) => {
      if (exchange.streamed) return begins(({ response }) => void response.end())(exchange);
      halfOf(exchange);
      exchange.response.end();
    },
  },
  "mid-done": {
    does: "says that it is done without a finish",
    status: 502,
    begun: "answer",
    on: streams,
    behave: begins((exchange) => void exchange.response.end("data: [DONE]\n\n")),
  },
  ...streamTrouble("mid-broken", "breaks its JSON in the middle", `{"choices":[{"${providerBody}`),
  ...streamTrouble("mid-types", "changes its types in the middle", `{"choices":[{"delta":{"content":7}}]}`),
  ...streamTrouble("mid-null", "sends null in the middle", "null"),
  ...streamTrouble("mid-page", "sends a page in the middle", page),
  ...streamTrouble("mid-error", "sends an error in the middle", errorBody("overloaded")),
  ...streamTrouble("mid-huge", "breaks 10 MB of JSON in the middle", `{"${providerBody}${megabytes}`),
  "step-refused": {
    does: "refuses after a tool",
    status: 502,
    begun: "tool",
    behave: afterTool(refuses(500, errorBody("on fire"))),
    logged: ["500", "on fire"],
  },
  "step-reset": {
    does: "resets the connection after a tool",
    status: 502,
    begun: "tool",
    behave: afterTool(({ socket }) => void socket.resetAndDestroy()),
  },
  "mid-nameless": {
    does: "calls a tool that has no name",
    status: 502,
    begun: "answer",
    on: streams,
    behave: begins((exchange) => {
      exchange.delta({ tool_calls: [{ index: 0, id: "c1", function: { arguments: "{}" } }] });
      exchange.response.end("data: [DONE]\n\n");
    }),
  },
};

/** Calls a tool, and once its result has come does this. */
function afterTool(then: Behaviour): Behaviour {
  return (exchange) => {
    if (exchange.turn > 1) return then(exchange);
    return exchange.say({ toolCalls: [{ id: "call-1", name: "weather", arguments: '{"city":"Bern"}' }] });
  };
}

/** A line in the middle of a stream that stays open. */
function streamTrouble(id: string, does: string, line: string): Record<string, Trouble> {
  const behave = begins((exchange) => exchange.line(line));
  return { [id]: { does, status: 502, begun: "answer", open: true, on: streams, behave } };
}

const failsFirst = (first: Behaviour, then: Behaviour = healthy): Behaviour => {
  return (exchange) => (exchange.turn === 1 ? first(exchange) : then(exchange));
};
const soon = { "retry-after-ms": "1" };

const comment = ": still there\n\n";
const neverBegins: Record<string, Trouble> = {
  silent: { does: "never answers", status: 504, open: true, behave: () => {} },
  "silent-body": {
    does: "sends headers and then hangs",
    status: 504,
    open: true,
    behave: (exchange) => (exchange.streamed ? exchange.open() : halfOf(exchange)),
  },
  "silent-refusal": {
    does: "refuses and never says why",
    status: 504,
    open: true,
    behave: ({ response }) => void response.writeHead(500).write("{"),
  },
  "step-silent": {
    does: "never answers after a tool",
    status: 504,
    begun: "tool",
    open: true,
    behave: afterTool(() => {}),
  },
  "silent-again": {
    does: "refuses once and then never answers",
    status: 504,
    open: true,
    maxRetries: 1,
    behave: failsFirst(refuses(429, errorBody("slow down"), soon), () => {}),
  },
  dripping: {
    does: "only shows that it lives",
    status: 504,
    open: true,
    behave(exchange) {
      exchange.open();
      exchange.drip(exchange.streamed ? comment : " ");
    },
  },
  hollow: {
    does: "sends events that say nothing",
    status: 504,
    open: true,
    on: streams,
    behave(exchange) {
      exchange.open();
      exchange.drip('data: {"choices":[{"delta":{}}]}\n\n');
    },
  },
};
const stops: Record<string, Trouble> = {
  "mid-silent": {
    does: "stops in the middle",
    status: 504,
    begun: "answer",
    open: true,
    on: streams,
    behave: begins(() => {}),
  },
  "mid-dripping": {
    does: "only shows in the middle that it lives",
    status: 504,
    begun: "answer",
    open: true,
    on: streams,
    behave: begins((exchange) => exchange.drip(comment)),
  },
};
const troubles = { ...beforeTheAnswer, ...withinTheAnswer, ...neverBegins, ...stops };

/** A tool call first, and the answer once its result has come. */
const calls = (name: string, input: string): Behaviour => {
  return (exchange) =>
    exchange.turn === 1
      ? exchange.say({ toolCalls: [{ id: "call-1", name, arguments: input }], usage })
      : healthy(exchange);
};
const details = (cached: number, reasoning: number) => ({
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
});
const says =
  (text: string): Behaviour =>
  (exchange) =>
    exchange.say({ text: [text], usage });

const provider = await createProvider({
  healthy,
  loop: (exchange) =>
    exchange.turn === 1
      ? exchange.say({
          toolCalls: [{ id: "call-1", name: "weather", arguments: '{"city":"Bern"}' }],
          usage: { prompt_tokens: 100, completion_tokens: 20, total_tokens: 120, ...details(30, 5) },
        })
      : exchange.say({
          text: piecesOf(exchange.prompt),
          usage: { prompt_tokens: 200, completion_tokens: 7, total_tokens: 207, ...details(40, 2) },
        }),
  "large-delta": (exchange) => exchange.say({ text: [`{"city":"${megabytes}","people":3}`], usage }),
  "retry-429": failsFirst(refuses(429, errorBody("slow down"), soon)),
  "retry-500": failsFirst(refuses(500, errorBody("on fire"), soon)),
  "retry-both": refuses(500, errorBody("on fire"), soon),
  "retry-later": refuses(429, errorBody("slow down"), { "retry-after-ms": "50000" }),
  "unknown-tool": calls("nosuch", "{}"),
  "broken-input": calls("weather", '{"city":'),
  "wrong-input": calls("weather", '{"city":7}'),
  "throwing-tool": calls("explode", "{}"),
  "endless-tool": calls("wait", "{}"),
  prose: says("The weather is fine"),
  "prose-late": (exchange) => exchange.say({ text: [beginningOf(exchange.prompt), ", a city"], usage }),
  "wrong-shape": says('{"city":7,"people":3}'),
  "extra-shape": says('{"city":"a","people":3,"more":1}'),
  "array-shape": says("[1]"),
  "null-shape": says("null"),
  ...Object.fromEntries(Object.entries(troubles).map(([id, { behave }]) => [id, behave])),
});
afterAll(() => provider.close());

const settings = { name: "compatible", apiKey, includeUsage: true, supportsStructuredOutputs: true };
const compatible = createOpenAICompatible({ ...settings, baseURL: provider.baseURL });
const nobody = createOpenAICompatible({ ...settings, baseURL: provider.refusedURL });

const ran: { tool: string; input: unknown }[] = [];
/** The signals of the tools that never return, by the prompt that they were called for. */
const waiting = new Map<string, PromiseWithResolvers<AbortSignal>>();
const waitingFor = (prompt: string): PromiseWithResolvers<AbortSignal> => {
  const called = waiting.get(prompt) ?? Promise.withResolvers<AbortSignal>();
  waiting.set(prompt, called);
  return called;
};
const tools = {
  weather: defineTool({
    description: "Tells the weather",
    inputSchema: v.object({ city: v.string() }),
    execute(input) {
      ran.push({ tool: "weather", input });
      return { sky: `clear over ${input.city}` };
    },
  }),
  explode: defineTool({
    description: "Throws",
    inputSchema: v.object({}),
    execute(input) {
      ran.push({ tool: "explode", input });
      throw new Error("the oven is off");
    },
  }),
  wait: defineTool({
    description: "Never returns",
    inputSchema: v.object({}),
    execute(_, { context, signal }) {
      waitingFor(context.context.get("prompt") as string).resolve(signal);
      return new Promise(() => {});
    },
  }),
};

function agentOf(id: string, options: Partial<DefineAgentOptions> = {}): AgentDefinition {
  const model = id === "refused" ? nobody(id) : compatible(id);
  return defineAgent({ id, instructions, model, maxRetries: 0, ...options });
}
const troubled = Object.entries(troubles).map(([id, { maxRetries = 0, begun }]) =>
  agentOf(id, { maxRetries, ...(begun === "tool" && { tools }) }),
);
const shapes = ["prose", "prose-late", "wrong-shape", "extra-shape", "array-shape", "null-shape"];
const toolTroubles = ["unknown-tool", "broken-input", "wrong-input", "throwing-tool", "endless-tool"];
const agents = [
  ...troubled,
  ...["healthy", "large-delta", ...shapes].map((id) => agentOf(id)),
  ...["loop", ...toolTroubles].map((id) => agentOf(id, { tools })),
  ...["retry-429", "retry-500", "retry-both", "retry-later"].map((id) => agentOf(id, { maxRetries: 1 })),
];

const uncaught: unknown[] = [];
const onUncaught = (error: unknown): void => void uncaught.push(error);
beforeEach(() => {
  process.on("unhandledRejection", onUncaught).on("uncaughtException", onUncaught);
});
afterEach(() => {
  process.off("unhandledRejection", onUncaught).off("uncaughtException", onUncaught);
  const [error] = uncaught.splice(0);
  if (error) throw new Error("this would have ended the process", { cause: error });
});

let asked = 0;
const newPrompt = (): string => `ask-${++asked}`;

function bodyOf(endpoint: Endpoint, prompt: string): Record<string, unknown> {
  const options = { context: { prompt } };
  if (endpoint === "chat") return { input: [{ role: "user", parts: [{ type: "text", text: prompt }] }], options };
  return { input: prompt, options, ...(givesObject(endpoint) && { schema }) };
}

/** A server's client that tells the provider what it has seen, and fails on whatever nobody may read. */
async function watch(server: Pick<TestServer, "send">): Promise<Ask> {
  const send: Send = async (path, init) => toWatched(await server.send(path, init));
  const doc = (await (await server.send("/doc", {})).json()) as never;
  const client: Client = createClient(send, doc);
  return async (endpoint, agent, prompt = newPrompt()) => {
    const answer = await within(client.post(`/agents/${agent}/${endpoint}`, bodyOf(endpoint, prompt)));
    const all = `${answer.text}\n${[...answer.headers].join("\n")}`;
    for (const secret of [apiKey, "INSTRUCTIONS-9b2e", providerBody]) expect(all).not.toContain(secret);
    if (answer.status === 200 && endpoint === "chat") expect(answer.text).toMatch(/data: \[DONE\]\n\n$/);
    return answer;
  };
}
type Ask = (endpoint: Endpoint, agent: string, prompt?: string) => Promise<Answer>;

function toWatched(response: Response): Response {
  if (!response.body) return response;
  const decoder = new TextDecoder();
  let text = "";
  const noticing = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      controller.enqueue(chunk);
      text = text.slice(-100) + decoder.decode(chunk, { stream: true });
      for (const [, prompt] of text.matchAll(/FIRST\((ask-\d+)\)/g)) provider.saw(prompt!);
    },
  });
  return new Response(response.body.pipeThrough(noticing), response);
}

/** A suite's server, with a client that watches. */
function describeAgents(
  title: string,
  options: { only?: readonly TestServer["target"][]; limits?: Record<string, number> },
  suite: (server: TestServer, ask: Ask) => void,
): void {
  const config = { agents, server: { limits: { drainMs: 1_000, schemaMs: 10_000, ...options.limits } } };
  describeServer(title, { config, only: options.only ?? ["dev", "start"] }, (server) => {
    let watched: Promise<Ask> | undefined;
    suite(server, async (...args) => (await (watched ??= watch(server)))(...args));
    it("has logged neither the key nor the instructions", () => {
      const logs = show(server.logs);
      for (const secret of [apiKey, "INSTRUCTIONS-9b2e"]) expect(logs.includes(secret)).toBe(false);
    });
  });
}
const show = (logs: readonly LogRecord[]): string =>
  inspect(logs, { depth: Infinity, maxArrayLength: Infinity, maxStringLength: 100_000, showHidden: true });

/** Whether an answer is whole, in whatever form. */
function expectHealthy(endpoint: Endpoint, prompt: string, { status, body, events }: Answer): void {
  expect(status).toBe(200);
  const text = piecesOf(prompt).join("");
  const deltas = events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta);
  if (endpoint === "text") expect(body.data).toMatchObject({ text, finishReason: "stop" });
  if (endpoint === "object") expect(body.data).toEqual(objectOf(prompt));
  if (endpoint === "stream" || endpoint === "chat") expect(deltas.join("")).toBe(text);
  if (endpoint === "stream" || endpoint === "chat") expect(events.at(-1)).toMatchObject({ type: "finish" });
  if (endpoint === "stream-object")
    expect(events.at(-1)).toMatchObject({ type: "object", object: objectOf(prompt), finishReason: "stop" });
}

const messages = { 502: "Model call failed", 504: "Model call timed out" };
/** A plain error; or the last event of a stream that has begun. */
function expectFailure(endpoint: Endpoint, answer: Answer, status: 502 | 504, message: string, begun?: Begun): void {
  const { body, events } = answer;
  // It is not said whether a stream that nothing was to be seen of has begun.
  const isPlain = begun === "tool" && endpoint === "stream-object" && answer.status !== 200;
  if (!begun || !isStream(endpoint) || isPlain) {
    expect([answer.status, body]).toEqual([status, { success: false, error: message }]);
    return;
  }
  expect(answer.status).toBe(200);
  const failure = endpoint === "chat" ? { type: "error", errorText: message } : { type: "error", error: message };
  expect(events.at(-1)).toEqual(failure);
  expect(events.filter(({ type }) => ["error", "finish", "object", "abort"].includes(type))).toHaveLength(1);
}

interface Row {
  readonly endpoint: Endpoint;
  readonly id: string;
  readonly does: string;
}
const on = (rows: Record<string, Pick<Trouble, "does" | "on">>): Row[] =>
  Object.entries(rows).flatMap(([id, { does, on: some = endpoints }]) =>
    some.map((endpoint): Row => ({ endpoint, id, does })),
  );

/** One row of the table: what the client hears, what the provider sees, what the log says, and that all goes on. */
async function expectTrouble(
  server: TestServer,
  ask: Ask,
  { endpoint, id }: Row,
  prompt: string = newPrompt(),
  answering: Promise<Answer> = ask(endpoint, id, prompt),
): Promise<void> {
  const { status, begun, open = false, maxRetries = 0, logged = [] } = troubles[id]!;
  const answer = await answering;
  expectFailure(endpoint, answer, status, messages[status], begun);
  if (begun === "answer" && isStream(endpoint)) expect(answer.text).toContain(`FIRST(${prompt})`);
  const exchanges = provider.asked(prompt);
  expect(exchanges).toHaveLength(id === "refused" ? 0 : begun === "tool" ? 2 : 1 + maxRetries);
  const last = exchanges.at(-1);
  if (open && !last!.response.writableEnded) expect(await within(last!.closed)).toBe("cut");
  const records = server.logs.filter(({ level, data }) => level === "error" && data?.["agentId"] === id);
  expect(records.map(({ message }) => message)).toContain(messages[status]);
  for (const detail of logged) expect(show(records)).toContain(detail);
  const next = newPrompt();
  expectHealthy(endpoint, next, await ask(endpoint, "healthy", next));
}

describeAgents("a healthy provider", { only: ["in process", "dev", "start"] }, (server, ask) => {
  it.for(endpoints)("%s: is asked with key, instructions and prompt, and its answer comes whole", async (endpoint) => {
    const prompt = newPrompt();
    expectHealthy(endpoint, prompt, await ask(endpoint, "healthy", prompt));
    const [{ headers, body, streamed }] = provider.asked(prompt) as [Exchange];
    expect(headers.authorization).toBe(`Bearer ${apiKey}`);
    expect(body.messages).toMatchObject([
      { role: "system", content: instructions },
      { role: "user", content: prompt },
    ]);
    expect(streamed).toBe(isStream(endpoint));
  });

  it.for(streams)("%s: hands on what has come before more comes", async (endpoint) => {
    // The provider says the second word only once the client has seen the first.
    const prompt = newPrompt();
    const { events } = await ask(endpoint, "healthy", prompt);
    const growing = events.filter(({ type }) => type === "text-delta" || type === "partial-object");
    expect(growing.length).toBeGreaterThan(1);
    if (endpoint === "stream-object")
      expect(growing[0]).toEqual({ type: "partial-object", object: { city: `FIRST(${prompt})` } });
    else expect(growing.map(({ delta }) => delta)).toEqual(piecesOf(prompt));
  });

  it.for(endpoints)("%s: runs the tools that the model calls and tells it what they returned", async (endpoint) => {
    const prompt = newPrompt();
    ran.length = 0;
    const answer = await ask(endpoint, "loop", prompt);
    expectHealthy(endpoint, prompt, answer);
    expect(ran).toEqual([{ tool: "weather", input: { city: "Bern" } }]);
    const [first, second, ...more] = provider.asked(prompt);
    expect(more).toEqual([]);
    expect(first!.body.tools?.map(({ function: { name } }) => name)).toEqual(["weather", "explode", "wait"]);
    expect(second!.body.messages.at(-1)).toEqual({
      role: "tool",
      tool_call_id: "call-1",
      content: '{"sky":"clear over Bern"}',
    });
    const call = { toolCallId: "call-1", toolName: "weather", input: { city: "Bern" } };
    const output = { sky: "clear over Bern" };
    if (endpoint === "text")
      expect(answer.body.data).toMatchObject({ steps: 2, toolCalls: [call], toolResults: [{ ...call, output }] });
    if (endpoint === "stream") {
      expect(answer.events).toContainEqual(expect.objectContaining({ type: "tool-call", ...call }));
      expect(answer.events).toContainEqual(expect.objectContaining({ type: "tool-result", ...call, output }));
    }
    if (endpoint === "chat")
      expect(answer.events).toContainEqual(
        expect.objectContaining({ type: "tool-output-available", toolCallId: "call-1", output }),
      );
  });

  it.for(["text", "stream", "stream-object"] as const)("%s: sums the usage of all steps", async (endpoint) => {
    const { body, events } = await ask(endpoint, "loop");
    const { usage: summed } = endpoint === "text" ? body.data : events.at(-1);
    expect(summed).toEqual({
      inputTokens: 300,
      outputTokens: 27,
      totalTokens: 327,
      reasoningTokens: 7,
      cachedInputTokens: 70,
    });
  });

  it.for(["object", "stream-object"] as const)("%s: gives the provider the client's schema", async (endpoint) => {
    const prompt = newPrompt();
    await ask(endpoint, "healthy", prompt);
    expect(provider.asked(prompt)[0]!.body.response_format).toMatchObject({
      type: "json_schema",
      json_schema: { schema },
    });
  });

  const large = server.target === "start" ? endpoints : [];
  it.for(large)("%s: takes 10 MB in one line", async (endpoint) => {
    const { status, body, events } = await ask(endpoint, "large-delta");
    expect(status).toBe(200);
    const text = `{"city":"${megabytes}","people":3}`;
    if (endpoint === "text") expect(body.data.text === text).toBe(true);
    if (endpoint === "object") expect(body.data.city === megabytes).toBe(true);
    if (endpoint === "stream-object") expect(events.at(-1).object.city === megabytes).toBe(true);
    if (endpoint === "stream" || endpoint === "chat") {
      const said = events.filter(({ type }) => type === "text-delta").map(({ delta }) => delta);
      expect(said.join("") === text).toBe(true);
    }
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});

describeAgents("a provider in trouble", {}, (server, ask) => {
  // What is slow by its size is the same behind both.
  const here = (rows: Record<string, Trouble>): Row[] =>
    on(rows).filter(({ id }) => !id.endsWith("huge") || server.target === "start");
  it.for(here(beforeTheAnswer))("$endpoint: a provider that $does is a plain 502", (row) =>
    expectTrouble(server, ask, row),
  );
  it.for(here(withinTheAnswer))("$endpoint: a provider that $does is a 502, or ends the stream with it", (row) =>
    expectTrouble(server, ask, row),
  );

  it("logs what a provider sent, but not all of 10 MB", () => {
    const sizes = server.logs.map((record) => inspect(record, { depth: Infinity, maxStringLength: Infinity }).length);
    expect(Math.max(...sizes)).toBeLessThan(1_000_000);
  });

  it("has no agent running any more", async () => {
    const { body } = await server.get("/agents");
    expect(body.data.filter(({ status }: { status: string }) => status !== "idle")).toEqual([]);
  });

  const once = { "retry-429": { does: "says 429 once" }, "retry-500": { does: "says 500 once" } };
  it.for(on(once))("$endpoint: a provider that $does is asked again", async ({ endpoint, id }) => {
    const prompt = newPrompt();
    expectHealthy(endpoint, prompt, await ask(endpoint, id, prompt));
    expect(provider.asked(prompt)).toHaveLength(2);
  });

  it.for(endpoints)("%s: a provider that fails as often as it may be asked is a 502", async (endpoint) => {
    const prompt = newPrompt();
    expectFailure(endpoint, await ask(endpoint, "retry-both", prompt), 502, messages[502]);
    expect(provider.asked(prompt)).toHaveLength(2);
    expect(show(server.logs.filter(({ data }) => data?.["agentId"] === "retry-both"))).toMatch(
      /500[^]*on fire|on fire[^]*500/,
    );
  });
});

/** All of them are asked at once, so that they wait together. */
function describeTimeouts(title: string, limits: Record<string, number>, rows: Record<string, Trouble>): void {
  describeAgents(title, { limits }, (server, ask) => {
    const waited = new Map<string, { prompt: string; answer: Promise<Answer> }>();
    beforeAll(async () => {
      await ask("object", "healthy"); // loads what the first call loads
      for (const { endpoint, id } of on(rows)) {
        const prompt = newPrompt();
        waited.set(`${endpoint} ${id}`, { prompt, answer: ask(endpoint, id, prompt) });
      }
      await Promise.allSettled([...waited.values()].map(({ answer }) => answer));
    });
    it.for(on(rows))("$endpoint: a provider that $does is a time-out", (row) => {
      const { prompt, answer } = waited.get(`${row.endpoint} ${row.id}`)!;
      return expectTrouble(server, ask, row, prompt, answer);
    });
  });
}
describeTimeouts("a provider that does not begin", { modelFirstByteMs: 1_500 }, neverBegins);
describeTimeouts("a provider that stops", { modelGapMs: 1_000 }, stops);

describeAgents("an answer that is not what the schema says", {}, (_, ask) => {
  const mismatch = /^Model output does not match schema: ./;
  it.for(shapes)("object: %s is a 502 that says so", async (id) => {
    const { status, body } = await ask("object", id);
    expect([status, body]).toEqual([502, { success: false, error: expect.stringMatching(mismatch) }]);
  });
  it.for(shapes)("stream-object: %s is a 502, or ends the stream with an error, that says so", async (id) => {
    const { status, body, events } = await ask("stream-object", id);
    const error = expect.stringMatching(mismatch);
    // Words are no part of an object: it is not said whether a stream without one has begun.
    if (status === 502) expect(body).toEqual({ success: false, error });
    else expect([status, events.at(-1)]).toEqual([200, { type: "error", error }]);
    if (!["prose", "null-shape"].includes(id)) expect(status).toBe(200);
    expect(events.filter(({ type }) => type === "object")).toEqual([]);
  });
});

describeAgents("a model that calls its tools wrongly", {}, (server, ask) => {
  const wrong: [id: string, what: string, error: RegExp][] = [
    ["unknown-tool", "a tool that does not exist", /nosuch/],
    ["broken-input", "a tool with broken JSON", /JSON|invalid input/i],
    ["wrong-input", "a tool with input of the wrong type", /city/],
    ["throwing-tool", "a tool that throws", /the oven is off/],
  ];
  const rows = wrong.flatMap(([id, what, error]) => endpoints.map((endpoint) => ({ endpoint, id, what, error })));

  it.for(rows)("$endpoint: $what is told to the model, which goes on", async ({ endpoint, id, error }) => {
    const prompt = newPrompt();
    ran.length = 0;
    const answer = await ask(endpoint, id, prompt);
    expectHealthy(endpoint, prompt, answer);
    expect(ran).toEqual(id === "throwing-tool" ? [{ tool: "explode", input: {} }] : []);
    const [, second, ...third] = provider.asked(prompt);
    expect(third).toEqual([]);
    expect(second!.body.messages.at(-1)).toEqual({
      role: "tool",
      tool_call_id: "call-1",
      content: expect.stringMatching(error),
    });
    const shown = { toolCallId: "call-1", error: expect.stringMatching(error) };
    if (endpoint === "text") expect(answer.body.data.toolResults).toMatchObject([shown]);
    if (endpoint === "text") expect(answer.body.data.steps).toBe(2);
    const failed = answer.events.filter(({ type }) => type === "tool-error");
    if (endpoint === "stream") expect(failed).toMatchObject([shown]);
    if (endpoint === "chat")
      expect(answer.events).toContainEqual(
        expect.objectContaining({ toolCallId: "call-1", errorText: expect.stringMatching(error) }),
      );
  });

  it.for(endpoints)("%s: a tool that never returns ends with its client", async (endpoint) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, "endless-tool", prompt);
    const signal = await within(waitingFor(prompt).promise);
    expect(signal.aborted).toBe(false);
    client.leave();
    await expect.poll(() => signal.aborted).toBe(true);
    await expectIdle(server, "endless-tool");
    expect(provider.asked(prompt)).toHaveLength(1);
  });
});

describeAgents("a client that leaves", { only: ["in process", "dev", "start"] }, (server, ask) => {
  const rows = [
    ...endpoints.map((endpoint) => ({ endpoint, id: "silent", when: "before anything has come" })),
    ...endpoints.map((endpoint) => ({ endpoint, id: "silent-body", when: "before the model has said anything" })),
    ...streams.map((endpoint) => ({ endpoint, id: "mid-silent", when: "in the middle of the answer" })),
    ...streams.map((endpoint) => ({ endpoint, id: "mid-dripping", when: "while the model says nothing" })),
  ];
  it.for(rows)("$endpoint: ends the request to the provider, $when", async ({ endpoint, id }) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, id, prompt);
    const exchange = await within(provider.reached(prompt));
    if (id.startsWith("mid-")) await within(exchange.seen);
    client.leave();
    expect(await within(exchange.closed)).toBe("cut");
    await expectIdle(server, id);
    const next = newPrompt();
    expectHealthy(endpoint, next, await ask(endpoint, "healthy", next));
  });

  it.for(endpoints)("%s: is not waited for until the provider may be asked again", async (endpoint) => {
    const prompt = newPrompt();
    const client = visit(server, endpoint, "retry-later", prompt);
    expect(await within(provider.reached(prompt).then(({ closed }) => closed))).toBe("answered");
    client.leave();
    await expectIdle(server, "retry-later");
    expect(provider.asked(prompt)).toHaveLength(1);
  });

  it("is nothing that the log calls an error", () => {
    expect(server.logs.filter(({ level }) => level === "error")).toEqual([]);
  });
});

/** A client that reads whatever comes, until it leaves. */
function visit(server: TestServer, endpoint: Endpoint, agent: string, prompt: string): { leave(): void } {
  const leaving = new AbortController();
  const response = server.send(`/agents/${agent}/${endpoint}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(bodyOf(endpoint, prompt)),
    signal: leaving.signal,
  });
  const reader = response.then((opened) => toWatched(opened).body!.getReader());
  void readOn(reader).catch(() => {}); // it is cut
  return {
    leave() {
      leaving.abort();
      reader.then((opened) => opened.cancel()).catch(() => {});
    },
  };
}
async function readOn(opening: Promise<ReadableStreamDefaultReader>): Promise<void> {
  const reader = await opening;
  while (!(await reader.read()).done);
}

async function expectIdle(server: TestServer, agent: string): Promise<void> {
  const statusOf = async () => (await server.get(`/agents/${agent}`)).body.data.status;
  await expect.poll(statusOf).toBe("idle");
}

describe("secrets", () => {
  it.for(["dev", "start"] as const)("%s: an agent is described without its key", async (target) => {
    const server = await startServer(target, { config: { agents } });
    onTestFinished(() => server.close());
    const { text } = await server.get("/agents");
    const { text: detail } = await server.get("/agents/healthy");
    expect(text + detail).not.toContain(apiKey);
    expect(text).not.toContain("INSTRUCTIONS-9b2e");
    expect(detail.includes("INSTRUCTIONS-9b2e")).toBe(target === "dev");
  });

  it("a key that stands in the provider's URL is not logged", async () => {
    const byQuery = createOpenAICompatible({ ...settings, baseURL: provider.baseURL, queryParams: { key: apiKey } });
    const config = { agents: ["status-401", "page", "reset"].map((id) => agentOf(id, { model: byQuery(id) })) };
    const server = await startServer("start", { config });
    onTestFinished(() => server.close());
    const ask = await watch(server);
    for (const { id } of config.agents) expect((await ask("text", id)).status).toBe(502);
    for (const { id } of config.agents) expect((await ask("stream", id)).text).toContain("Model call failed");
    expect(server.logs.length).toBeGreaterThan(0);
    expect(show(server.logs)).not.toContain(apiKey);
  });
});

describe("a model named by text", () => {
  beforeEach(() => {
    vi.stubEnv("AI_GATEWAY_API_KEY", undefined);
    vi.stubEnv("VERCEL_OIDC_TOKEN", undefined);
  });
  afterEach(() => void vi.unstubAllEnvs());

  it.for(["dev", "start"] as const)(
    "%s: of a provider that is not installed: the log says what to do",
    async (target) => {
      const config = { agents: [defineAgent({ id: "lost", instructions, model: "nosuch/model" })] };
      const server = await startServer(target, { config });
      onTestFinished(() => server.close());
      const ask = await watch(server);
      for (const endpoint of endpoints) {
        server.logs.length = 0;
        const answer = await ask(endpoint, "lost");
        expectFailure(endpoint, answer, 502, messages[502]);
        expect(show(server.logs)).toContain("npm install @ai-sdk/nosuch");
        expect(show(server.logs)).toContain("AI_GATEWAY_API_KEY");
      }
    },
  );

  it("is found in the project's own packages, and whatever its provider throws is for the log", async () => {
    const ask = await openProject({ FAKE_API_KEY: undefined });
    for (const endpoint of endpoints) {
      for (const agent of ["keyless", "unmade", "plain"]) {
        ask.logs.length = 0;
        const answer = await ask(endpoint, agent);
        expectFailure(endpoint, answer, 502, messages[502]);
        expect(answer.text).not.toMatch(/fake/i);
        expect(show(ask.logs)).toContain("FAKE_API_KEY");
      }
    }
  });

  it("answers once the key is there", async () => {
    const ask = await openProject({ FAKE_API_KEY: apiKey });
    for (const endpoint of endpoints) {
      const prompt = newPrompt();
      expectHealthy(endpoint, prompt, await ask(endpoint, "keyless", prompt));
      expect(provider.asked(prompt)[0]!.body.model).toBe("healthy");
    }
  });

  /** A project whose own `node_modules` hold a provider, packed as the AI SDK's are. */
  async function openProject(env: Record<string, string | undefined>): Promise<Ask & { logs: LogRecord[] }> {
    for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
    const fake = "app/node_modules/@ai-sdk/fake";
    const folder = createProject({
      "app/agents.config.ts": `import { defineAgent, defineConfig, embedded } from "agentserve";
        const agent = (id, model) => defineAgent({ id, model, instructions: ${JSON.stringify(instructions)}, maxRetries: 0 });
        export default defineConfig({
          agents: [agent("keyless", "fake/healthy"), agent("unmade", "fake/unmade"), agent("plain", "fake/plain")],
          backend: embedded({ path: ":memory:" }),
        });`,
      [`${fake}/package.json`]: JSON.stringify({
        name: "@ai-sdk/fake",
        version: "1.0.0",
        type: "module",
        exports: { ".": { import: "./dist/index.js", default: "./dist/index.js" } },
      }),
      [`${fake}/dist/index.js`]: `import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
        import { loadApiKey } from "@ai-sdk/provider-utils";
        const settings = ${JSON.stringify({ ...settings, apiKey: undefined, baseURL: provider.baseURL })};
        const key = { environmentVariableName: "FAKE_API_KEY", description: "Fake" };
        const inner = createOpenAICompatible({ ...settings, apiKey: () => loadApiKey({ ...key, apiKey: undefined }) });
        const plain = createOpenAICompatible({
          ...settings,
          apiKey() {
            throw new TypeError("Fake: FAKE_API_KEY is not text");
          },
        });
        export const createFake = () => fake;
        export const fake = {
          languageModel(id) {
            if (id === "unmade") throw new Error("Fake: FAKE_API_KEY does not know this model");
            return id === "plain" ? plain(id) : inner(id);
          },
        };`,
    });
    const logs: LogRecord[] = [];
    const own = { agentserve, "agentserve/models": models };
    const project = await createLoader(findConfig(undefined, join(folder, "app")), own).load();
    const server = openServer(project, { mode: "start", logger: createTestLogger(logs) });
    onTestFinished(() => server.close());
    const { url } = await server.listen({ port: 0 });
    return Object.assign(await watch({ send: (path, init) => fetch(url + path, init) }), { logs });
  }
});
