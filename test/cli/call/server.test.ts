import type { ServerResponse } from "node:http";
import { describe, expect, it } from "vitest";
import { call, heard, pretend, startCall, toFrames } from "./stage.ts";

const sse = { "content-type": "text/event-stream" };
const json = { "content-type": "application/json" };
const refuse = (response: ServerResponse, status: number, error: string) =>
  void response.writeHead(status, json).end(JSON.stringify({ success: false, error }));
const result = { type: "workflow-result", status: "completed", result: 1 };

describe("agentserve call, of a server that is not ours", () => {
  it("call says that no server listens, and how to start one", async () => {
    const { url, close } = await pretend(() => {});
    await close();
    const { code, stdout, stderr } = await call(["workflow", "x", "--url", url]);
    expect([code, stdout, stderr]).toEqual([
      1,
      "",
      `error Cannot connect to ${url} (ECONNREFUSED)\nhint  start a server with npx agentserve dev, or set the URL with --url or AGENTSERVE_URL\n`,
    ]);
    expect((await call(["workflow", "x", "--url", "http://127.0.0.1:1"])).stderr).toBe(
      "error The port of http://127.0.0.1:1 is reserved for another protocol: fetch blocks it\n",
    );
  });

  it.each<[string, number, Record<string, string>, string]>([
    ["a page", 200, { "content-type": "text/html" }, "<h1>hello</h1>"],
    ["a page for what it does not have", 404, { "content-type": "text/html" }, "<h1>404</h1>"],
    ["JSON of another kind", 200, json, '{"ok":true}'],
    ["JSON of another kind as an error", 500, json, '{"error":{"code":1}}'],
    ["what is no JSON", 200, json, "{"],
    ["our envelope where a stream should be", 200, json, '{"success":true,"data":1}'],
    ["nothing", 204, {}, ""],
  ])("call prints one error line when a server answers with %s", async (_, status, headers, body) => {
    const { url } = await pretend((_request, response) => void response.writeHead(status, headers).end(body));
    for (const args of [
      ["workflow", "x"],
      ["agent", "x", "hi"],
    ]) {
      const { code, stdout, stderr } = await call([...args, "--url", url]);
      expect([code, stdout, stderr]).toEqual([
        1,
        "",
        `error Unexpected response from ${url}: expected the JSON or events of an agentserve server\nhint  is another server running there? Set the URL with --url or AGENTSERVE_URL\n`,
      ]);
    }
  });

  it("call follows no redirect, so that no other server gets the token", async () => {
    const other = await pretend((_, response) => void response.writeHead(200, sse).end(toFrames([result])));
    const { url, requests: asked } = await pretend((_, response) => {
      response.writeHead(307, { location: `${other.url}/stolen?x=1` }).end();
    });
    const { code, stdout, stderr } = await call(["workflow", "x", "--url", url, "--token", "hunter2"]);
    expect([code, stdout, stderr]).toEqual([
      1,
      "",
      `error ${url} answered with a redirect (307): expected an agentserve server\nhint  did you mean --url ${other.url}? No request was sent there\n`,
    ]);
    expect(asked.map(({ headers }) => headers.authorization)).toEqual(["Bearer hunter2"]);
    expect(other.requests).toEqual([]);
  });

  it("call shows the events after an author's own event that has a seq", async () => {
    const { url } = await pretend((_, response) => {
      const frames = toFrames([
        { type: "own", seq: 1_000_000 },
        { type: "step-start", from: "pay", seq: 1 },
        { type: "step-complete", from: "pay", seq: 2, attempt: 1 },
        { type: "workflow-result", status: "completed", result: 1 },
      ]);
      response.writeHead(200, { "content-type": "text/event-stream" }).end(frames);
    });
    const { code, stderr } = await call(["workflow", "w", "{}", "--url", url]);
    expect([code, stderr]).toEqual([0, expect.stringMatching(/• own.*▸ pay.*✓ pay/s)]);
  });

  it("call shows no control character and no endless text of a server", async () => {
    const evil = "\u001b[2J\u009b31m\u202e\r\nerror all is lost";
    const long = "x".repeat(10_000);
    const { url } = await pretend((_, response) => {
      const events = [
        { type: "step-start", from: evil + long, seq: 1 },
        { type: evil, from: "a", text: long },
        { type: "step-complete", from: evil + long, seq: 2, attempt: 2 },
        { type: "workflow-suspended", seq: 3, suspension: { stepId: evil, reason: evil + long, data: { evil } } },
        { type: "workflow-result", status: "error", error: evil + long, executionId: evil },
      ];
      response.writeHead(200, sse).end(toFrames(events));
    });
    const { code, stdout, stderr } = await call(["workflow", "x", "--url", url]);
    expect([code, stdout]).toEqual([1, ""]);
    expect(stderr).not.toMatch(/[^\n -~▸✓‖•·…]/u);
    expect(stderr.split("\n").length).toBe(8);
    expect(stderr.length).toBeLessThan(6_000);
    expect(stderr).toContain(String.raw`▸ \x1b[2J\x9b31m\u202e\x0d\x0aerror all is lostxxx`);
    const refused = await pretend((_, response) => refuse(response, 400, evil + long));
    const said = await call(["agent", "x", "hi", "--url", refused.url]);
    expect(said.stderr).toMatch(/^error \\x1b\[2J\\x9b31m[ -~]*… \(400\)\n$/);
  });

  it("call prints a command that is safe to paste, whatever the server calls its fields", async () => {
    const suspension = { stepId: "a", reason: "?", suspendedAt: "now" };
    const { url } = await pretend(({ method }, response) => {
      if (method === "POST")
        response.writeHead(200, sse).end(toFrames([{ type: "workflow-result", status: "suspended", suspension }]));
      const properties = { "'; touch /tmp/owned; '": { type: "string" } };
      const data = { steps: [], resumeSchema: { type: "object", properties } };
      if (method === "GET") response.writeHead(200, json).end(JSON.stringify({ success: true, data }));
    });
    const { code, stderr } = await call(["workflow", "x", "--url", url]);
    expect([code, stderr]).toEqual([
      3,
      expect.stringContaining(String.raw`--resume '{"'\''; touch /tmp/owned; '\''":<string>}'`),
    ]);
  });

  it("call suggests only valid workflow ids of a server's list", async () => {
    const data = [
      { id: "\u001b[2J" },
      null,
      7,
      { id: "fine" },
      ...Array.from({ length: 30 }, (_, n) => ({ id: `w${n}x` })),
    ];
    const { url } = await pretend(({ method }, response) =>
      method === "POST"
        ? refuse(response, 404, "Workflow nothing not found")
        : void response.writeHead(200, json).end(JSON.stringify({ success: true, data })),
    );
    expect((await call(["workflow", "nothing", "--url", url])).stderr).toBe(
      "error Workflow nothing not found (404)\nhint  available workflows: fine, w0x, w1x, w2x, w3x, w4x, w5x, w6x, w7x, w8x and 21 more\n",
    );
  });

  it("call reads SSE frames however they are cut, with comments and ids between them", async () => {
    const frames = `:\r\n\r\nid: 1\r\ndata: {"type":"text-delta",\r\ndata: "delta":"ü😀"}\r\n\r\n: ping\n\n${toFrames([{ type: "finish" }])}`;
    const { url } = await pretend(async (_, response) => {
      response.writeHead(200, sse);
      for (const byte of Buffer.from(frames)) {
        response.write(Uint8Array.of(byte));
        await new Promise((resolve) => setImmediate(resolve));
      }
      response.end();
    });
    expect(await call(["agent", "x", "hi", "--url", url])).toMatchObject({ code: 0, stdout: "ü😀\n" });
  });

  it("call refuses an SSE frame of more than 16 MiB, in one line or in many", async () => {
    const line = `data: ${"x".repeat(1_048_570)}`;
    for (const [first, more] of [
      ["data: ", "x".repeat(1_048_576)],
      ["", `${line}\n`],
    ] as const) {
      const { url } = await pretend((_, response) => {
        response.writeHead(200, sse).write(first);
        const pour = (left: number): void => {
          if (left > 0) response.write(more, () => pour(left - 1));
        };
        pour(40);
      });
      const { code, stderr } = await call(["agent", "x", "hi", "--url", url]);
      expect([code, stderr]).toEqual([
        1,
        expect.stringContaining("error The server sent an event that is larger than 16 MiB"),
      ]);
    }
  });

  it.each(["nonsense", "null", "7", '{"a":1}'])("call refuses %s as an event of a server", async (text) => {
    const { url } = await pretend((_, response) => void response.writeHead(200, sse).end(`data: ${text}\n\n`));
    const { code, stderr } = await call(["workflow", "x", "--url", url]);
    expect([code, stderr]).toEqual([1, expect.stringContaining("error The server sent an invalid event")]);
  });

  it("call says that the stream of an answer ended too early", async () => {
    const frames = toFrames([{ type: "text-delta", delta: "half an ans" }]);
    const ended = await pretend(
      (_, response) => void response.writeHead(200, sse).end(`${frames}data: {"type":"finish"}\n`),
    );
    const first = await call(["agent", "x", "hi", "--url", ended.url]);
    expect([first.code, first.stdout, first.stderr]).toEqual([
      1,
      "half an ans\n",
      expect.stringContaining("error The stream ended before the answer was complete"),
    ]);
    const cut = await pretend((request, response) => {
      response.writeHead(200, sse).write(frames, () => request.socket.destroy());
    });
    const second = await call(["agent", "x", "hi", "--url", cut.url]);
    expect([second.code, second.stdout, second.stderr]).toEqual([
      1,
      "half an ans\n",
      expect.stringMatching(/^error The connection to \S+ was closed or timed out \(\w+\)\n$/),
    ]);
  });

  it("call finds out whether an execution was started when the connection broke before the first event", async () => {
    const { url, requests: asked } = await pretend((request, response) => {
      if (request.method === "POST") request.socket.destroy();
      else if (asked.length < 4) refuse(response, 503, "Server is shutting down");
      else response.writeHead(200, sse).end(toFrames([result]));
    });
    const { code, stdout } = await call(["workflow", "x", "--execution", "e", "{}", "--url", url]);
    expect([code, stdout, asked.map(({ url: path }) => path)]).toEqual([
      0,
      "1\n",
      ["/workflows/x/stream", ...Array.from({ length: 3 }, () => "/workflows/x/executions/e/stream?after=0")],
    ]);
    const gone = await pretend((request, response) => {
      if (request.method === "POST") request.socket.destroy();
      else refuse(response, 404, "Execution e not found");
    });
    expect((await call(["workflow", "x", "--execution", "e", "{}", "--url", gone.url])).stderr).toContain(
      "error Execution e not found: it was not started, or its data was deleted\n",
    );
  });

  it("call says that a server is slow, and ends at Ctrl+C", async () => {
    const { url } = await pretend(() => {});
    const calling = startCall(["agent", "x", "hi", "--url", url]);
    await heard(calling, /still waiting for/);
    calling.process.kill("SIGINT");
    expect(await calling.ended).toMatchObject({
      code: 1,
      stdout: "",
      stderr: `still waiting for ${url} …\nerror Interrupted\n`,
    });
  });

  it("call ends when the reader of its stdout has closed the pipe", async () => {
    const { url } = await pretend((_, response) => {
      response.writeHead(200, sse);
      const timer = setInterval(() => response.write(toFrames([{ type: "text-delta", delta: "again " }])), 5);
      response.on("close", () => clearInterval(timer));
    });
    const calling = startCall(["agent", "x", "hi", "--url", url]);
    await calling.waitFor(/again/);
    calling.process.stdout!.destroy();
    expect((await calling.ended).code).toBe(1);
  });
});
