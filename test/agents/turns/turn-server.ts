import { defineAgent, type DefineAgentOptions } from "agentserve";
import { scriptedModel, type ScriptedModel, type ScriptedStep } from "agentserve/models";
import { expect } from "vitest";
import { readMessages } from "../../../src/agents/messages/read-messages.ts";
import type { StoredUiMessage } from "../../../src/agents/messages/ui-message.ts";
import { parseEvents } from "../../harness/client.ts";
import { createGates, type Gates } from "../../harness/gates.ts";
import type { TestServer } from "../../harness/server.ts";
import { toLine } from "../../harness/react.ts";
import { until, within } from "../../harness/waiting.ts";
import { instructions, slowly, toLines } from "../chat/chat-server.ts";

type Step = Exclude<ScriptedStep, Function> | ((...args: Parameters<Extract<ScriptedStep, Function>>) => any);

/** A model that answers each question as its test has planned. */
export interface PlannedModel {
  readonly model: ScriptedModel;
  /** The gates between the words of `words`. */
  readonly gates: Gates;
  /** Sets the answers to a question, one for each call of the model. */
  plan(question: string, ...steps: Step[]): void;
  /** Returns an answer that waits at a gate after each word. */
  words(...words: string[]): Step;
  /** The prompts of the calls for a question. */
  prompts(question: string): string[][];
  /** The signal of the last call for a question. */
  signal(question: string): AbortSignal;
}

export function createPlannedModel(): PlannedModel {
  const plans = new Map<string, Step[]>();
  const gates = createGates();
  const calls: { question: string; lines: string[]; signal: AbortSignal }[] = [];
  const answer: ScriptedStep = (options) => {
    const lines = toLines(options.prompt);
    const question = lines.findLast((line) => line.startsWith("user: "))!.slice("user: ".length);
    calls.push({ question, lines, signal: options.abortSignal! });
    const steps = plans.get(question) ?? [];
    const step = steps[calls.filter((call) => call.question === question).length - 1];
    if (step === undefined) throw new Error(`no answer is planned for ${question}`);
    return typeof step === "function" ? step(options) : step;
  };
  const callsFor = (question: string) => calls.filter((call) => call.question === question);
  return {
    model: scriptedModel(Array.from({ length: 1_000 }, () => answer)),
    gates,
    plan: (question, ...steps) => void plans.set(question, steps),
    words:
      (...words) =>
      () =>
        slowly(words, (word) => gates.pass(word)),
    prompts: (question) => callsFor(question).map(({ lines }) => lines),
    signal: (question) => callsFor(question).at(-1)!.signal,
  };
}

export const toAgent = (model: ScriptedModel, id: string, options: Partial<DefineAgentOptions> = {}) =>
  defineAgent({ id, instructions, model, maxRetries: 0, ...options });

let ids = 0;
/** Returns a name that no other test has. */
export const unique = (name: string): string => `${name}-${++ids}`;

/** A client that reads a stream event by event. */
export interface Reader {
  readonly status: number;
  readonly headers: Headers;
  /** Reads up to the first event for which this holds, and returns the events so far. */
  readUntil(holds: (event: any) => boolean): Promise<any[]>;
  /** Reads to the end, and returns all events. */
  rest(): Promise<any[]>;
  /** The text that was received. */
  text(): string;
  leave(): void;
}

export async function openReader(server: TestServer, path: string, body?: object): Promise<Reader> {
  const leaving = new AbortController();
  const init = body && {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  };
  const response = await server.send(path, { ...init, signal: leaving.signal });
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const events = (): any[] => parseEvents(text.slice(0, text.lastIndexOf("\n\n") + 2));
  const read = async (): Promise<boolean> => {
    const { done, value = "" } = (await reader?.read()) ?? { done: true };
    text += value;
    return !done;
  };
  return {
    status: response.status,
    headers: response.headers,
    async readUntil(holds) {
      while (!(text.includes("\n\n") && events().some(holds))) if (!(await within(read()))) throw new Error(text);
      return events();
    },
    async rest() {
      while (await within(read()));
      return events();
    },
    text: () => text,
    leave() {
      leaving.abort();
      reader?.cancel().catch(() => {}); // in process, nothing listens to the signal of a response
    },
  };
}

export const chat = (server: TestServer, agent: string, conversationId: string, question: string, options = {}) =>
  openReader(server, `/agents/${agent}/chat`, chatBody(conversationId, question, options));
export const chatBody = (conversationId: string, question: string, options: object = {}) => ({
  messages: [{ id: `${question}-id`, role: "user", parts: [{ type: "text", text: question }] }],
  options: { conversationId, ...options },
});
export const isText = (text: string) => (event: any) => (event.delta ?? event.text) === text;

export const attach = (server: TestServer, agent: string, conversationId: string, query = "") =>
  openReader(server, `/agents/${agent}/chat/${conversationId}/stream${query}`);

export const stop = (server: TestServer, agent: string, conversationId: string, body: object = {}, query = "") =>
  server.post(`/agents/${agent}/conversations/${conversationId}/stop${query}`, body);

/** The stored messages of a conversation. */
export const read = (server: TestServer, agentId: string, conversationId: string, userId?: string) =>
  readMessages(server.conversations, { agentId, userId, conversationId }, { limit: 100 });
export const linesOf = (messages: readonly StoredUiMessage[]): string[] => messages.map((one) => toLine(one as never));

/** Waits until a conversation has this many messages. */
export async function stored(
  server: TestServer,
  agentId: string,
  conversationId: string,
  count: number,
  userId?: string,
): Promise<StoredUiMessage[]> {
  let messages: StoredUiMessage[] = [];
  await until(
    async () => (messages = await read(server, agentId, conversationId, userId)).length >= count,
    () => `${count} messages: ${linesOf(messages).join()}`,
  );
  expect(messages).toHaveLength(count);
  return messages;
}

/** Waits until the server knows that its readers have left. */
export async function untilLeft(server: TestServer, open = 0): Promise<void> {
  await until(
    async () => (await server.get("/metrics")).text.includes(`agentserve_streams_open ${open}\n`),
    "the end of the streams",
  );
}
