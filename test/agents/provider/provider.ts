import { once } from "node:events";
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** The reaction of a provider to a request. When it returns without having ended the response, that stays open. */
export type Behaviour = (exchange: Exchange) => void | Promise<void>;

/** The answer of a model. */
export interface Said {
  /** Its text, in the pieces that are streamed. */
  text?: readonly string[];
  toolCalls?: readonly { id: string; name: string; arguments: string }[];
  usage?: Record<string, unknown>;
}

export interface Provider {
  readonly baseURL: string;
  /** An address that refuses connections. */
  readonly refusedURL: string;
  /** The requests that carried this prompt, in order. */
  asked(prompt: string): Exchange[];
  /** The first request that carries this prompt, once it has come. */
  reached(prompt: string): Promise<Exchange>;
  /** Says that the client has received the beginning of the answer to this prompt. */
  saw(prompt: string): void;
  close(): Promise<void>;
}

/**
 * A model provider that speaks the chat completions of OpenAI, over real sockets. The model that is asked for says how it
 * behaves.
 */
export async function createProvider(behaviours: Readonly<Record<string, Behaviour>>): Promise<Provider> {
  const exchanges: Exchange[] = [];
  const seen = createSignals();
  const arrived = createSignals();
  const sockets = new Set<Socket>();
  const server = createServer(async (req, res) => {
    const text = await readAll(req).catch(() => undefined);
    if (text === undefined) return; // the client left
    const body = JSON.parse(text) as RequestBody;
    const prompt = promptOf(body);
    const turn = exchanges.filter((exchange) => exchange.prompt === prompt).length + 1;
    const exchange = new Exchange(req, res, body, { prompt, turn, seen: seen.of(prompt).promise });
    exchanges.push(exchange);
    arrived.of(prompt).resolve();
    const behaviour = behaviours[body.model];
    if (!behaviour) return void res.writeHead(599).end(`no behaviour of the name ${body.model}`);
    await behaviour(exchange);
  });
  server.on("connection", (socket) => {
    sockets.add(socket.on("error", () => {}).once("close", () => sockets.delete(socket)));
  });
  const baseURL = await listen(server);
  const closed = createServer();
  const refusedURL = await listen(closed);
  await close(closed);

  return {
    baseURL,
    refusedURL,
    asked: (prompt) => exchanges.filter((exchange) => exchange.prompt === prompt),
    async reached(prompt) {
      await arrived.of(prompt).promise;
      return exchanges.find((exchange) => exchange.prompt === prompt)!;
    },
    saw: (prompt) => seen.of(prompt).resolve(),
    async close() {
      for (const socket of sockets) socket.destroy();
      await close(server);
    },
  };
}

interface RequestBody {
  model: string;
  stream?: boolean;
  messages: { role: string; content?: unknown; [key: string]: unknown }[];
  tools?: { function: { name: string } }[];
  response_format?: { type: string; json_schema?: { schema: unknown } };
  [key: string]: unknown;
}

/** One request, and what has been answered so far. */
export class Exchange {
  readonly body: RequestBody;
  readonly headers: IncomingHttpHeaders;
  readonly prompt: string;
  /** How many requests have carried this prompt, with this one. */
  readonly turn: number;
  readonly streamed: boolean;
  /** Resolves when the client of the server has seen the beginning of this answer. */
  readonly seen: Promise<void>;
  /** How the response ended: here, or because the client has closed the connection. */
  readonly closed: Promise<"answered" | "cut">;
  readonly response: ServerResponse;
  readonly socket: Socket;

  constructor(
    req: IncomingMessage,
    res: ServerResponse,
    body: RequestBody,
    { prompt, turn, seen }: { prompt: string; turn: number; seen: Promise<void> },
  ) {
    this.body = body;
    this.headers = req.headers;
    this.prompt = prompt;
    this.turn = turn;
    this.seen = seen;
    this.streamed = body.stream === true;
    this.response = res;
    this.socket = req.socket;
    this.closed = once(res, "close").then(() => (res.writableFinished ? "answered" : "cut"));
  }

  /** A whole answer, in the form that was asked for. */
  async say({ text = [], toolCalls = [], usage }: Said): Promise<void> {
    const finish = toolCalls.length > 0 ? "tool_calls" : "stop";
    const calls = toolCalls.map(({ id, name, arguments: input }) => ({
      id,
      type: "function",
      function: { name, arguments: input },
    }));
    if (!this.streamed) {
      const message = {
        role: "assistant",
        content: text.join("") || null,
        ...(calls.length > 0 && { tool_calls: calls }),
      };
      return this.json({
        ...this.#common("chat.completion"),
        choices: [{ index: 0, message, finish_reason: finish }],
        usage,
      });
    }
    this.open();
    for (const [index, piece] of text.entries()) {
      this.delta({ content: piece });
      // The rest is said only once the beginning has gone all the way.
      if (index === 0 && text.length > 1) await this.seen;
    }
    for (const [index, call] of calls.entries()) {
      const half = Math.floor(call.function.arguments.length / 2);
      const { name, arguments: input } = call.function;
      this.delta({ tool_calls: [{ ...call, index, function: { name, arguments: input.slice(0, half) } }] });
      this.delta({ tool_calls: [{ index, function: { arguments: input.slice(half) } }] });
    }
    this.event({ ...this.#common("chat.completion.chunk"), choices: [{ index: 0, delta: {}, finish_reason: finish }] });
    if (usage) this.event({ ...this.#common("chat.completion.chunk"), choices: [], usage });
    this.response.end("data: [DONE]\n\n");
  }

  json(body: unknown, status = 200, headers: Record<string, string> = {}): void {
    this.response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  }

  /** The headers of a stream; they are on their way at once. */
  open(type = "text/event-stream"): void {
    this.response.writeHead(200, { "content-type": type }).flushHeaders();
  }

  delta(delta: unknown): void {
    this.event({ ...this.#common("chat.completion.chunk"), choices: [{ index: 0, delta, finish_reason: null }] });
  }

  event(value: unknown): void {
    this.line(JSON.stringify(value));
  }

  line(text: string): void {
    this.response.write(`data: ${text}\n\n`);
  }

  /** Writes this again and again, until the connection is closed. */
  drip(text: string): void {
    const timer = setInterval(() => this.response.write(text), 20);
    this.response.once("close", () => clearInterval(timer));
  }

  #common(object: string): Record<string, unknown> {
    return { id: `chatcmpl-${this.turn}`, object, created: 1_700_000_000, model: this.body.model };
  }
}

function promptOf({ messages }: RequestBody): string {
  const content = messages.findLast(({ role }) => role === "user")?.content;
  if (typeof content === "string") return content;
  return (content as { text?: string }[]).map(({ text = "" }) => text).join("");
}

async function readAll(req: IncomingMessage): Promise<string> {
  let text = "";
  for await (const chunk of req.setEncoding("utf8")) text += chunk;
  return text;
}

interface Signals {
  of(key: string): PromiseWithResolvers<void>;
}
function createSignals(): Signals {
  const signals = new Map<string, PromiseWithResolvers<void>>();
  return {
    of(key) {
      const signal = signals.get(key) ?? Promise.withResolvers<void>();
      signals.set(key, signal);
      return signal;
    },
  };
}

async function listen(server: ReturnType<typeof createServer>): Promise<string> {
  await once(server.listen(0, "127.0.0.1"), "listening");
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
}

async function close(server: ReturnType<typeof createServer>): Promise<void> {
  const closed = once(server, "close");
  server.close();
  await closed;
}
