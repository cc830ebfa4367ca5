import { once } from "node:events";
import { connect } from "node:net";
import WebSocket from "ws";
import type { LoadedServer } from "./serve.ts";

/** A client's action: one or more requests. Returns their statuses, with 0 for a response that was not awaited. */
type Action = (server: LoadedServer, n: number) => Promise<number[]>;

const async = { prefer: "respond-async" };

async function read(response: Promise<Response>): Promise<number[]> {
  const answer = await response;
  await answer.arrayBuffer();
  return [answer.status];
}
const get =
  (path: string): Action =>
  (server) =>
    read(server.get(path));
const post =
  (path: string, toBody: (n: number) => unknown, headers: Record<string, string> = {}): Action =>
  (server, n) =>
    read(server.post(path, toBody(n), headers));

const approve: Action = async (server, n) => {
  const order = { orderId: `o${n}`, amount: n };
  const started = await server.post("/workflows/refund/execute", { input: order, options: { executionId: `r${n}` } });
  await started.arrayBuffer();
  const path = `/workflows/refund/executions/r${n}`;
  const seen = await read(server.get(`${path}/state`));
  return [started.status, ...seen, ...(await read(server.post(`${path}/resume`, { resumeData: { approved: true } })))];
};

/** Starts an execution, attaches to its events, leaves after the first of them, and cancels the execution. */
const leave: Action = async (server, n) => {
  const path = `/workflows/counting/executions/c${n}`;
  const options = { executionId: `c${n}` };
  const started = await read(server.post("/workflows/counting/execute", { input: { n }, options }, async));
  const events = await server.get(`${path}/stream`);
  const reader = events.body!.getReader();
  await reader.read();
  await reader.cancel();
  return [...started, events.status, ...(await read(server.post(`${path}/cancel`, { reason: "no reader" })))];
};

/** Sends half of a body, and drops the connection. */
export const dropBody: Action = async ({ port }) => {
  const socket = connect(port, "127.0.0.1");
  socket.on("error", () => {});
  const head = ["POST /agents/support/text HTTP/1.1", "Host: localhost", "Content-Type: application/json"];
  await new Promise<void>((sent) => {
    socket.write(`${head.join("\r\n")}\r\nContent-Length: 1000\r\n\r\n{"input":`, () => sent());
  });
  socket.destroy();
  return [0];
};

const echo: Action = async ({ url }) => {
  const socket = new WebSocket(`${url.replace("http", "ws")}/ws`);
  await once(socket, "open");
  const answered = once(socket, "message");
  socket.send("hello");
  await answered;
  const closed = once(socket, "close");
  socket.close();
  await closed;
  return [101];
};

const message = { id: "m", role: "user", parts: [{ type: "text", text: "Hello" }] };
const schema = { type: "object", properties: { topic: { type: "string" } }, required: ["topic"] };

/** Every endpoint at least once, its errors, and clients that leave. */
export const actions: readonly Action[] = [
  approve,
  leave,
  dropBody,
  echo,
  post("/workflows/branches/execute", (n) => ({ input: { n } })),
  post("/workflows/nested/stream", (n) => ({ input: { n } })),
  post("/workflows/draft/execute", (n) => ({ input: { message: `Hello ${n}` } })),
  post("/workflows/broken/execute", () => ({ input: {} })),
  post("/workflows/heavy/execute", (n) => ({ input: { n, pad: "x".repeat(20_000) } }), async),
  post("/workflows/refund/execute", () => ({ input: { orderId: 1 } })),
  post("/workflows/refund/executions/none/suspend", () => ({})),
  post("/workflows/refund/executions/none/resume", () => ({})),
  post("/agents/support/text", (n) => ({ input: `Hello ${n}` })),
  post("/agents/support/stream", (n) => ({ input: `Hello ${n}`, options: { conversationId: `c${n % 50}` } })),
  post("/agents/plain:v1.0/chat", (n) => ({ id: `chat${n % 50}`, messages: [{ ...message, id: `m${n}` }] })),
  post("/agents/plain:v1.0/object", () => ({ input: "Hello", schema })),
  post("/agents/plain:v1.0/stream-object", () => ({ input: "Hello", schema })),
  post("/agents/failing/text", () => ({ input: "Hello" })),
  post("/agents/none/text", () => ({ input: "Hello" })),
  post("/agents/support/text", () => "{"),
  get("/"),
  get("/ui"),
  get("/doc"),
  get("/agents"),
  get("/agents/support"),
  get("/workflows"),
  get("/workflows/refund"),
  get("/workflows/refund/executions?limit=20"),
  get("/workflows/counting/executions?status=completed&limit=5"),
  get("/api/logs?limit=20"),
  get("/none"),
];
