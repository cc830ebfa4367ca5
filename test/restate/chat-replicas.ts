import { spawn, type ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { connect, createServer, type AddressInfo, type Socket } from "node:net";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { expect, onTestFinished } from "vitest";
import { patienceMs } from "../harness/patience.ts";
import { freePort } from "./restate-server.ts";

/** The addresses of a Restate server. */
export interface RestateAddresses {
  readonly ingress: string;
  readonly admin: string;
}
/** A call of a replica's model. */
export interface Asked {
  readonly text: string;
  /** The messages before the text. */
  readonly before: readonly string[];
}
export interface ChatReplica {
  readonly child: ChildProcess;
  readonly asked: Asked[];
  /** The texts whose call of the model was aborted. */
  readonly aborted: string[];
  say(conversationId: string, text: string): Promise<Reply>;
  /** Reads or deletes a conversation. Resolves to the status and the texts of its messages. */
  conversation(id: string, method?: "GET" | "DELETE"): Promise<{ status: number; texts: string[] }>;
  /** Runs the workflow `asks` in a conversation. Resolves to its result. */
  execute(conversationId: string): Promise<unknown>;
  /** Lets the model answer a text that begins with `hold`. */
  answer(text: string): void;
}
interface Reply {
  readonly status: number;
  readonly text: string | undefined;
}
export interface ChatReplicas {
  readonly replicas: readonly [ChatReplica, ChatReplica];
  /** Does what the health check of a balancer does for a replica that hangs: Restate is not led to it any more. */
  takeOut(replica: ChatReplica): void;
  /** Waits until the line of a conversation has so many places. */
  waitForLine(conversationId: string, places: number): Promise<void>;
  /** Waits until Restate has no deletion in flight. */
  waitForDeletions(): Promise<void>;
}

/** Starts two replicas as processes behind a proxy. */
export async function startChatReplicas({ ingress, admin }: RestateAddresses): Promise<ChatReplicas> {
  const ports = [await freePort(), await freePort()];
  const name = `chat-${randomUUID()}`;
  const proxy = await startProxy(ports);
  const env = { ...process.env, TEST_RESTATE_INGRESS: ingress, TEST_RESTATE_ADMIN: admin };
  const started = await Promise.all(ports.map((port) => startReplica([name, String(port), proxy.url], env)));
  const replicas = started as [ChatReplica, ChatReplica]; // of two ports
  const select = async <Row>(query: string): Promise<Row[]> => {
    const response = await post(`${admin}/query`, { query }, { accept: "application/json" });
    return ((await response.json()) as { rows: Row[] }).rows;
  };
  const count = async (key: string): Promise<number> => {
    const rows = await select<{ line: string }>(`select value_utf8 as line from state
      where service_name = '${name}.conversation' and service_key = '${key}' and key = 'line'`);
    return rows[0] ? (JSON.parse(rows[0].line) as { places: unknown[] }).places.length : 0;
  };
  return {
    replicas,
    takeOut: (replica) => proxy.takeOut(ports[replicas.indexOf(replica)]!),
    async waitForLine(conversationId, places) {
      const key = JSON.stringify(["talker", null, conversationId]);
      await expect.poll(() => count(key), { timeout: patienceMs }).toBe(places);
    },
    async waitForDeletions() {
      const open = `select id from sys_invocation where target_service_name = '${name}.conversation'
        and target_handler_name = 'remove' and status <> 'completed'`;
      await expect.poll(() => select(open), { timeout: patienceMs }).toEqual([]);
    },
  };
}

async function startReplica(parameters: string[], env: NodeJS.ProcessEnv): Promise<ChatReplica> {
  const child = spawn(process.execPath, [join(import.meta.dirname, "chat-host.ts"), ...parameters], { env });
  onTestFinished(() => void child.removeAllListeners("exit").kill("SIGKILL"));
  const asked: Asked[] = [];
  const aborted: string[] = [];
  let errors = "";
  child.stderr.on("data", (text) => (errors += text));
  const address = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`A replica ended with ${code}: ${errors.slice(0, 2000)}`)));
    createInterface(child.stdout).on("line", (line) => {
      const [type] = line.split(" ", 1);
      const value = JSON.parse(line.slice(type!.length)) as unknown;
      if (type === "ready") resolve(value as string);
      if (type === "asked") asked.push(value as Asked);
      if (type === "aborted") aborted.push(value as string);
    });
  });
  return {
    child,
    asked,
    aborted,
    async say(conversationId, text) {
      const response = await post(`${address}/agents/talker/text`, { input: text, options: { conversationId } });
      const { data } = (await response.json()) as { data?: { text: string } };
      return { status: response.status, text: data?.text };
    },
    async conversation(id, method = "GET") {
      const response = await fetch(`${address}/agents/talker/conversations/${id}`, { method });
      const { data } = (await response.json()) as { data?: { messages?: { parts: { text?: string }[] }[] } };
      const toText = ({ parts }: { parts: { text?: string }[] }): string => parts.map(({ text = "" }) => text).join("");
      return { status: response.status, texts: (data?.messages ?? []).map(toText) };
    },
    async execute(conversationId) {
      const response = await post(`${address}/workflows/asks/execute`, { input: {}, options: { conversationId } });
      const { data } = (await response.json()) as { data?: { result: unknown } };
      return data?.result;
    },
    answer: (text) => void child.stdin.write(`${text}\n`),
  };
}

export const post = (url: string, body: unknown, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(url, {
    method: "POST",
    headers: { ...headers, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

/** A proxy that hands each connection to the next replica that accepts it. */
export async function startProxy(ports: readonly number[]) {
  const open = new Map(ports.map((port) => [port, new Set<Socket>()]));
  let turn = 0;
  const server = createServer((socket) => {
    const tryNext = (tries: number): void => {
      const all = [...open.keys()];
      if (tries === 0) return void socket.destroy();
      const port = all[turn++ % all.length]!;
      const upstream = connect(port, "127.0.0.1");
      let isOpen = false;
      upstream.once("connect", () => {
        isOpen = true;
        open.get(port)?.add(socket);
        socket.pipe(upstream).pipe(socket);
      });
      upstream.on("error", () => (isOpen ? socket.destroy() : tryNext(tries - 1)));
      upstream.on("close", () => isOpen && socket.destroy());
      socket.on("error", () => upstream.destroy());
      socket.on("close", () => {
        open.get(port)?.delete(socket);
        upstream.destroy();
      });
    };
    tryNext(open.size);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => void server.close());
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, // it listens on a port
    takeOut(port: number): void {
      for (const socket of open.get(port) ?? []) socket.destroy();
      open.delete(port);
    },
  };
}
