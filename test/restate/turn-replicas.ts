import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { onTestFinished } from "vitest";
import { until } from "../harness/waiting.ts";
import { post, startProxy, type RestateAddresses } from "./chat-replicas.ts";
import { freePort } from "./restate-server.ts";

export interface TurnReplica {
  readonly child: ChildProcess;
  /** The calls of the model and of tools, as `work 0` and `note <key>`. */
  readonly calls: string[];
  readonly aborted: string[];
  /** The warnings and errors of its log. */
  complaints(): string;
  /** Resolves when a call has been made. */
  called(call: string): Promise<void>;
  /** Lets calls pass a gate. */
  open(...gates: string[]): void;
  /** Begins a turn of a conversation, and returns its id of the answer. */
  begin(conversationId: string, question: string, schema?: object): Promise<string>;
  /** Asks, and returns the messages that the model was shown. */
  recall(conversationId: string): Promise<string[]>;
  /** Asks a question whose tool is suspended, and returns the id of its execution. */
  suspend(conversationId: string, question: string): Promise<string>;
  /** Resumes an execution of `pay`, and does not wait for its end. */
  resume(executionId: string): Promise<number>;
  chat(conversationId: string, question: string): Promise<Stream>;
  attach(conversationId: string, after?: string): Promise<Stream>;
  stop(conversationId: string, messageId?: string): Promise<{ status: number; data: any }>;
  /** Reads or deletes a conversation. */
  conversation(id: string, method: "GET" | "DELETE"): Promise<{ status: number; data: any }>;
}
/** A stream of a chat, as it is read. */
export interface Stream {
  readonly status: number;
  readonly events: any[];
  /** Resolves at the end of the stream. */
  readonly ended: Promise<void>;
  /** The text of the answer so far. */
  text(): string;
}
export interface TurnReplicas {
  readonly replicas: readonly TurnReplica[];
  takeOut(replica: TurnReplica): void;
  /** Starts a replica that Restate does not call: the proxy does not know it. */
  startApart(): Promise<TurnReplica>;
}

/** Starts replicas as processes behind a proxy. */
export async function startTurnReplicas({ ingress, admin }: RestateAddresses, count = 2): Promise<TurnReplicas> {
  const ports: number[] = [];
  while (ports.length < count) ports.push(await freePort());
  const name = `turns-${randomUUID()}`;
  const proxy = await startProxy(ports);
  const env = { ...process.env, TEST_RESTATE_INGRESS: ingress, TEST_RESTATE_ADMIN: admin };
  const replicas = await Promise.all(ports.map((port) => startReplica([name, String(port), proxy.url], env)));
  return {
    replicas,
    takeOut: (replica) => proxy.takeOut(ports[replicas.indexOf(replica)]!),
    startApart: async () => startReplica([name, String(await freePort()), proxy.url], env),
  };
}

async function startReplica(parameters: string[], env: NodeJS.ProcessEnv): Promise<TurnReplica> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "turn-host.ts"), ...parameters], { env });
  onTestFinished(() => void child.removeAllListeners("exit").kill("SIGKILL"));
  const calls: string[] = [];
  const aborted: string[] = [];
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  child.stdin.on("error", () => {}); // it was killed
  const address = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors.slice(0, 2000)}`)));
    createInterface(child.stdout).on("line", (line) => {
      const [type] = line.split(" ", 1);
      const value = JSON.parse(line.slice(type!.length));
      if (type === "ready") resolve(value);
      if (type === "asked") calls.push(`${value.question} ${value.call}`);
      if (type === "tool") calls.push(`${value.tool} ${value.idempotencyKey}`);
      if (type === "aborted") aborted.push(`${value.question} ${value.call}`);
    });
  });
  const agent = `${address}/agents/worker`;
  const options = (conversationId: string) => ({ options: { conversationId } });
  return {
    child,
    calls,
    aborted,
    complaints: () => errors,
    called: (call) => until(() => calls.some((one) => one.startsWith(call)), `${call}, after ${calls.join()}${errors}`),
    open: (...gates) => void child.stdin.write(gates.map((gate) => `${gate}\n`).join("")),
    async begin(conversationId, question, schema) {
      const body = { input: question, ...(schema && { schema }), ...options(conversationId) };
      const reply = await post(`${agent}/${schema ? "object" : "text"}`, body, { prefer: "respond-async" });
      if (reply.status !== 202) throw new Error(`${reply.status} ${await reply.text()}`);
      return ((await reply.json()) as { data: { messageId: string } }).data.messageId;
    },
    async recall(conversationId) {
      const reply = await post(`${agent}/text`, { input: "recall", ...options(conversationId) });
      if (reply.status !== 200) throw new Error(`${reply.status} ${await reply.text()}`);
      return JSON.parse(((await reply.json()) as { data: { text: string } }).data.text) as string[];
    },
    async suspend(conversationId, question) {
      const reply = await post(`${agent}/text`, { input: question, ...options(conversationId) });
      const { data } = (await reply.json()) as { data?: any };
      if (data?.finishReason !== "suspended") throw new Error(`${reply.status} ${JSON.stringify(data)}`);
      return data.suspensions[0].executionId as string;
    },
    async resume(executionId) {
      const url = `${address}/workflows/pay/executions/${executionId}/resume`;
      return (await post(url, { resumeData: {} }, { prefer: "respond-async" })).status;
    },
    chat: async (conversationId, question) => {
      const messages = [{ id: `${question}-id`, role: "user", parts: [{ type: "text", text: question }] }];
      return toStream(await post(`${agent}/chat`, { messages, ...options(conversationId) }));
    },
    attach: async (conversationId, after) =>
      toStream(await fetch(`${agent}/chat/${conversationId}/stream${after === undefined ? "" : `?after=${after}`}`)),
    async stop(conversationId, messageId) {
      const reply = await post(`${agent}/conversations/${conversationId}/stop`, { messageId });
      return { status: reply.status, data: ((await reply.json()) as { data?: unknown }).data };
    },
    async conversation(id, method) {
      const reply = await fetch(`${agent}/conversations/${id}`, { method });
      return { status: reply.status, data: ((await reply.json()) as { data?: unknown }).data };
    },
  };
}

function toStream(response: Response): Stream {
  const events: any[] = [];
  const read = async (): Promise<void> => {
    let text = "";
    for await (const part of response.body?.pipeThrough(new TextDecoderStream()) ?? []) {
      const frames = (text + part).split("\n\n");
      text = frames.pop()!;
      for (const frame of frames) {
        if (!frame.startsWith("data: ")) continue;
        const data = frame.slice("data: ".length);
        events.push(data === "[DONE]" ? data : JSON.parse(data));
      }
    }
  };
  return {
    status: response.status,
    events,
    ended: read().catch(() => {}), // its process was killed
    text: () => events.map(({ type, delta }) => (type === "text-delta" ? delta : "")).join(""),
  };
}
