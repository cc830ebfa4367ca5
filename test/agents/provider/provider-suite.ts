import { inspect } from "node:util";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { defineAgent, defineTool, type AgentDefinition, type DefineAgentOptions } from "agentserve";
import * as v from "valibot";
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from "vitest";
import type { Limits } from "../../../src/config/limits.ts";
import { withBounds } from "../../harness/bounds.ts";
import { createClient, type Answer, type Client, type Send } from "../../harness/client.ts";
import { describeServer, type LogRecord, type TestServer } from "../../harness/server.ts";
import { within } from "../../harness/waiting.ts";
import { createProvider } from "./provider.ts";
import {
  apiKey,
  beginningOf,
  calls,
  details,
  endpoints,
  errorBody,
  failsFirst,
  givesObject,
  healthy,
  instructions,
  isStream,
  objectOf,
  piecesOf,
  providerBody,
  refuses,
  says,
  schema,
  soon,
  troubles,
  usage,
  type Begun,
  type Endpoint,
  type Trouble,
  megabytes,
} from "./troubles.ts";

export const provider = await createProvider({
  healthy,
  "done-less": (exchange) => {
    if (!exchange.streamed) return healthy(exchange);
    exchange.open();
    const choices = [{ index: 0, delta: { content: piecesOf(exchange.prompt).join("") }, finish_reason: "stop" }];
    exchange.event({ id: "c", choices });
    exchange.response.end();
  },
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

export const settings = { name: "compatible", apiKey, includeUsage: true, supportsStructuredOutputs: true };
const compatible = createOpenAICompatible({ ...settings, baseURL: provider.baseURL });
const unreachable = createOpenAICompatible({ ...settings, baseURL: provider.refusedURL });

export const ran: { tool: string; input: unknown }[] = [];
/** The signals of the tools that never return, by the prompt that they were called for. */
const waiting = new Map<string, PromiseWithResolvers<AbortSignal>>();
export const waitingFor = (prompt: string): PromiseWithResolvers<AbortSignal> => {
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

export function agentOf(id: string, options: Partial<DefineAgentOptions> = {}): AgentDefinition {
  const model = id === "refused" ? unreachable(id) : compatible(id);
  return defineAgent({ id, instructions, model, maxRetries: 0, ...options });
}
const troubled = Object.entries(troubles).map(([id, { maxRetries = 0, begun }]) =>
  agentOf(id, { maxRetries, ...(begun === "tool" && { tools }) }),
);
export const shapes = ["prose", "prose-late", "wrong-shape", "extra-shape", "array-shape", "null-shape"];
const toolTroubles = ["unknown-tool", "broken-input", "wrong-input", "throwing-tool", "endless-tool"];
export const agents = [
  ...troubled,
  ...["healthy", "done-less", "large-delta", ...shapes].map((id) => agentOf(id)),
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
export const newPrompt = (): string => `ask-${++asked}`;

function bodyOf(endpoint: Endpoint, prompt: string): Record<string, unknown> {
  const options = { context: { prompt } };
  if (endpoint === "chat") return { input: [{ role: "user", parts: [{ type: "text", text: prompt }] }], options };
  return { input: prompt, options, ...(givesObject(endpoint) && { schema }) };
}

/** A server's client that tells the provider what it has seen, and fails on secrets. Only `dev` has details. */
export async function watch(server: Pick<TestServer, "send"> & Partial<Pick<TestServer, "target">>): Promise<Ask> {
  const send: Send = async (path, init) => toWatched(await server.send(path, init));
  const doc = (await (await server.send("/doc", {})).json()) as never;
  const client: Client = createClient(send, doc);
  return async (endpoint, agent, prompt = newPrompt()) => {
    const answer = await within(client.post(`/agents/${agent}/${endpoint}`, bodyOf(endpoint, prompt)));
    const all = `${answer.text}\n${[...answer.headers].join("\n")}`;
    for (const secret of [apiKey, "INSTRUCTIONS-9b2e"]) expect(all).not.toContain(secret);
    const shown = [answer.body, ...answer.events].flatMap((value) => value?.detail ?? []);
    if (server.target !== "dev") expect(shown).toEqual([]);
    const rest = shown.reduce((text, detail) => text.replaceAll(JSON.stringify(detail), ""), all);
    expect(rest).not.toContain(providerBody);
    if (answer.status === 200 && endpoint === "chat") expect(answer.text).toMatch(/data: \[DONE\]\n\n$/);
    return answer;
  };
}
export type Ask = (endpoint: Endpoint, agent: string, prompt?: string) => Promise<Answer>;

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

/** Runs a suite with a client that watches. */
export function describeAgents(
  title: string,
  options: { only?: readonly TestServer["target"][]; limits?: Partial<Limits> },
  suite: (server: TestServer, ask: Ask) => void,
): void {
  const config = withBounds({ drainMs: 1_000, schemaMs: 10_000, ...options.limits }, { agents });
  describeServer(title, { config, only: options.only ?? ["dev", "start"] }, (server) => {
    // Starts the process that checks schemas, which some tests would not wait for.
    beforeAll(async () => {
      const body = { input: "", schema: { type: "string" } };
      expect((await server.post("/agents/healthy/object", body)).status).toBe(400);
    });
    let watched: Promise<Ask> | undefined;
    suite(server, async (...args) => (await (watched ??= watch(server)))(...args));
    it("has logged neither the key nor the instructions", () => {
      const logs = show(server.logs);
      for (const secret of [apiKey, "INSTRUCTIONS-9b2e"]) expect(logs.includes(secret)).toBe(false);
    });
  });
}
export const show = (logs: readonly LogRecord[]): string =>
  inspect(logs, { depth: Infinity, maxArrayLength: Infinity, maxStringLength: 100_000, showHidden: true });

/** Expects a whole answer, in the form of its endpoint. */
export function expectHealthy(endpoint: Endpoint, prompt: string, { status, body, events }: Answer): void {
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

export const messages = { 429: "Model rate limit reached", 502: "Model call failed", 504: "Model call timed out" };
/** A plain error; or the last event of a stream that has begun. Either may have a detail. */
export function expectFailure(
  endpoint: Endpoint,
  answer: Answer,
  status: number,
  message: string,
  begun?: Begun,
): void {
  const { events } = answer;
  // It is not said whether a stream that nothing was to be seen of has begun.
  const isPlain = begun === "tool" && endpoint === "stream-object" && answer.status !== 200;
  if (!begun || !isStream(endpoint) || isPlain) {
    const { detail: _, ...body } = answer.body;
    expect([answer.status, body]).toEqual([status, { success: false, error: message }]);
    return;
  }
  expect(answer.status).toBe(200);
  const failure = endpoint === "chat" ? { type: "error", errorText: message } : { type: "error", error: message };
  const { detail: _, ...last } = events.at(-1);
  expect(last).toEqual(failure);
  expect(events.filter(({ type }) => ["error", "finish", "object", "abort"].includes(type))).toHaveLength(1);
}

export interface Row {
  readonly endpoint: Endpoint;
  readonly id: string;
  readonly does: string;
  readonly status?: number;
}
export const on = (rows: Record<string, Pick<Trouble, "does" | "on"> & { status?: number }>): Row[] =>
  Object.entries(rows).flatMap(([id, { does, status, on: some = endpoints }]) =>
    some.map((endpoint): Row => ({ endpoint, id, does, ...(status && { status }) })),
  );

/** Checks one row of the table: the answer, the requests to the provider, the log, and that the next request succeeds. */
export async function expectTrouble(
  server: TestServer,
  ask: Ask,
  { endpoint, id }: Row,
  prompt: string = newPrompt(),
  answering: Promise<Answer> = ask(endpoint, id, prompt),
): Promise<void> {
  const { status, message = messages[status], begun, open = false, maxRetries = 0, logged = [] } = troubles[id]!;
  const answer = await answering;
  expectFailure(endpoint, answer, status, message, begun);
  if (begun === "answer" && isStream(endpoint)) expect(answer.text).toContain(`FIRST(${prompt})`);
  const exchanges = provider.asked(prompt);
  expect(exchanges).toHaveLength(id === "refused" ? 0 : begun === "tool" ? 2 : 1 + maxRetries);
  const last = exchanges.at(-1);
  if (open && !last!.response.writableEnded) expect(await within(last!.closed)).toBe("cut");
  const records = server.logs.filter(({ level, data }) => level === "error" && data?.["agentId"] === id);
  expect(records.map((record) => record.message)).toContain(message);
  for (const detail of logged) expect(show(records)).toContain(detail);
  const next = newPrompt();
  expectHealthy(endpoint, next, await ask(endpoint, "healthy", next));
}

/** A client that reads whatever comes, until it leaves. */
export function visit(server: TestServer, endpoint: Endpoint, agent: string, prompt: string): { leave(): void } {
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

export async function expectIdle(server: TestServer, agent: string): Promise<void> {
  const statusOf = async () => (await server.get(`/agents/${agent}`)).body.data.status;
  await expect.poll(statusOf).toBe("idle");
}
