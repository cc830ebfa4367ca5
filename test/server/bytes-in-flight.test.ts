import { once } from "node:events";
import { connect } from "node:net";
import * as v from "valibot";
import { expect, it, onTestFinished } from "vitest";
import { defineRoute } from "../../src/http/route.ts";
import { defineWorkflow } from "../../src/workflows/define.ts";
import { createGates } from "../harness/gates.ts";
import { describeServer, type TestServer } from "../harness/server.ts";
import { eventually, until } from "../harness/waiting.ts";

const gates = createGates();
const workflow = defineWorkflow({ id: "wait" }).andThen({
  id: "gate",
  async execute({ data, suspend }: any) {
    await gates.pass(data.gate);
    if (data.suspends) await suspend("waiting");
    return "done";
  },
});
// A body counts five times its size: two bodies of 100 kB fit, and a third does not.
const config = { workflows: [workflow], server: { limits: { inFlightBytes: 1_100_000 } } };
const disconnected = createGates();
/** A handler that continues after its client has disconnected. */
const persistent = defineRoute({
  method: "POST",
  path: "/test/persistent",
  summary: "Waits for a gate",
  access: "public",
  body: v.object({ input: v.looseObject({ gate: v.string() }) }),
  responses: { 200: v.null() },
  async handle({ body, request }) {
    const { gate } = body.input;
    request.signal.addEventListener("abort", () => disconnected.open(gate));
    await gates.pass(gate);
    return null;
  },
});
let count = 0;
const input = (gate: string, bytes = 100_000, more = {}) => ({ input: { gate, pad: "x".repeat(bytes), ...more } });
const execute = "/workflows/wait/execute";
const later = { headers: { prefer: "respond-async" } };

describeServer("the bytes in flight", { config, only: ["in process", "start"] }, (server) => {
  const newGate = (): string => `${server.target} ${++count}`;

  it("answers 503 with Retry-After over inFlightBytes, and 200 again once another request has ended", async () => {
    const gate = newGate();
    const open = [server.post(execute, input(gate)), server.post(execute, input(gate))];
    await eventually(async () => {
      const { status, headers, body } = await server.post(execute, input(gate), later);
      expect([status, headers.get("retry-after"), body.error]).toEqual([503, "1", "Too much data in flight"]);
    });
    gates.open(gate);
    for (const { status } of await Promise.all(open)) expect(status).toBe(200);
    await eventually(async () => expect((await server.post(execute, input(gate))).status).toBe(200));
  });

  it("does not count small bodies for inFlightBytes", async () => {
    const gate = newGate();
    const large = server.post(execute, input(gate, 200_000));
    await gates.reached(gate);
    const small = Array.from({ length: 200 }, () => server.post(execute, input(gate, 15_000), later));
    for (const { status } of await Promise.all(small)) expect(status).toBe(202);
    gates.open(gate);
    expect((await large).status).toBe(200);
  });

  it("admits one request of any size while no other is in flight", async () => {
    const gate = newGate();
    gates.open(gate);
    await eventually(async () => expect((await server.post(execute, input(gate, 1_000_000))).status).toBe(200));
  });

  it("counts the body of a running execution for inFlightBytes after its response has ended", async () => {
    const gate = newGate();
    expect((await server.post(execute, input(gate, 200_000), later)).status).toBe(202);
    await gates.reached(gate);
    expect((await server.post(execute, input(gate), later)).status).toBe(503);
    expect((await server.post("/workflows/wait/stream", input(gate))).status).toBe(503);
    gates.open(gate);
    await eventually(async () => expect((await server.post(execute, input(gate))).status).toBe(200));
  });

  it("does not count the body of a suspended execution for inFlightBytes", async () => {
    const gate = newGate();
    gates.open(gate);
    const { body } = await server.post(execute, input(gate, 200_000, { suspends: true }));
    expect(body.data.status).toBe("suspended");
    await eventually(async () => expect((await server.post(execute, input(gate, 200_000))).status).toBe(200));
  });
});

describeServer("the bytes of a client that disconnects", { config, rows: [persistent], only: ["start"] }, (server) => {
  it("counts the body of a disconnected client for inFlightBytes until its handler has ended", async () => {
    const gate = "persistent";
    const leave = new AbortController();
    const asked = server.send("/test/persistent", {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(input(gate, 200_000)),
      signal: leave.signal,
    });
    await gates.reached(gate);
    leave.abort();
    await expect(asked).rejects.toThrow();
    await disconnected.pass(gate);
    expect((await server.post(execute, input(gate), later)).status).toBe(503);
    gates.open(gate);
    await eventually(async () => expect((await server.post(execute, input(gate), later)).status).toBe(202));
  });
});

describeServer("a body without a length", { config, only: ["dev", "start"] }, (server) => {
  const chunk = "x".repeat(50_000);

  async function upload(to: TestServer): Promise<{ more(): void; answer(): string }> {
    const socket = connect(Number(new URL(to.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    await once(socket, "connect");
    let text = "";
    socket.setEncoding("utf8").on("data", (part) => (text += part));
    socket.on("error", () => {});
    const headers = "Host: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked";
    socket.write(`POST ${execute} HTTP/1.1\r\n${headers}\r\n\r\n1\r\n"\r\n`);
    const more = (): void => void socket.write(`${chunk.length.toString(16)}\r\n${chunk}\r\n`);
    return { more, answer: () => text };
  }

  it("counts a body without a length as it is read, and refuses it before its end", async () => {
    const gate = `${server.target} chunks`;
    expect((await server.post(execute, input(gate), later)).status).toBe(202);
    const { more, answer } = await upload(server);
    for (let i = 0; i < 4; i++) more();
    await until(() => answer().startsWith("HTTP/1.1 503"), "the refusal");
    gates.open(gate);
  });
});
