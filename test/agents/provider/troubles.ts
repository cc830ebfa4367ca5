import type { Behaviour, Exchange } from "./provider.ts";

// Secrets: no client may ever read them.
export const apiKey = "sk-KEY-4d7a";
export const instructions = "You are INSTRUCTIONS-9b2e.";
export const providerBody = "PROVIDER-BODY-6c1f";

export const endpoints = ["text", "object", "stream", "stream-object", "chat"] as const;
export type Endpoint = (typeof endpoints)[number];
export const streams: readonly Endpoint[] = ["stream", "stream-object", "chat"];
export const isStream = (endpoint: Endpoint): boolean => streams.includes(endpoint);
export const givesObject = (endpoint: Endpoint): boolean => endpoint === "object" || endpoint === "stream-object";

export const schema = {
  type: "object",
  properties: { city: { type: "string" }, people: { type: "number" } },
  required: ["city", "people"],
  additionalProperties: false,
};
/** The answer of a healthy model. The beginning names the prompt, so that a test knows when its client has seen it. */
export const beginningOf = (prompt: string): string => `{"city":"FIRST(${prompt})`;
export const piecesOf = (prompt: string): string[] => [beginningOf(prompt), ' Bern"', ',"people":3}'];
export const objectOf = (prompt: string) => ({ city: `FIRST(${prompt}) Bern`, people: 3 });
export const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 };
export const healthy: Behaviour = (exchange) => exchange.say({ text: piecesOf(exchange.prompt), usage });

/** The beginning of the answer; or that a tool was called, which is no event of `stream-object`. */
export type Begun = "answer" | "tool";
export interface Trouble {
  readonly does: string;
  readonly behave: Behaviour;
  readonly status: 429 | 502 | 504;
  /** @default that of the status */
  readonly message?: string;
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
export const refuses = (status: number, body: string, headers: Record<string, string> = {}): Behaviour => {
  return ({ response }) => void response.writeHead(status, { "x-provider": providerBody, ...headers }).end(body);
};
export const errorBody = (message: string): string =>
  JSON.stringify({ error: { message: `${message} ${providerBody}` } });
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
export const megabytes = "x".repeat(10_000_000);
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

export const beforeTheAnswer: Record<string, Trouble> = {
  "status-401": {
    does: "refuses with 401",
    status: 502,
    message: "Model rejected the credentials",
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
    status: 429,
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
  "finish-less": {
    does: "sends an answer without a finish reason",
    status: 502,
    on: ["text", "object"],
    behave: sends(wholeJson.replace('"stop"', "null"), "application/json"),
    logged: ["The answer of the model has no finish reason"],
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

export const withinTheAnswer: Record<string, Trouble> = {
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

export const failsFirst = (first: Behaviour, then: Behaviour = healthy): Behaviour => {
  return (exchange) => (exchange.turn === 1 ? first(exchange) : then(exchange));
};
export const soon = { "retry-after-ms": "1" };

const comment = ": still there\n\n";
export const neverBegins: Record<string, Trouble> = {
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
export const stops: Record<string, Trouble> = {
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
export const troubles = { ...beforeTheAnswer, ...withinTheAnswer, ...neverBegins, ...stops };

/** A tool call first, and the answer once its result has come. */
export const calls = (name: string, input: string): Behaviour => {
  return (exchange) =>
    exchange.turn === 1
      ? exchange.say({ toolCalls: [{ id: "call-1", name, arguments: input }], usage })
      : healthy(exchange);
};
export const details = (cached: number, reasoning: number) => ({
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { reasoning_tokens: reasoning },
});
export const says =
  (text: string): Behaviour =>
  (exchange) =>
    exchange.say({ text: [text], usage });
