import { once } from "node:events";
import { connect } from "node:net";
import { expect, it, onTestFinished } from "vitest";
import { ServeError } from "../../src/core/error.ts";
import { testRows } from "../harness/rows.ts";
import { describeServer, startServer } from "../harness/server.ts";
import { until, within } from "../harness/waiting.ts";

const config = {
  server: { limits: { bodyBytes: 1_000 } },
  configureApp: (app: any) => app.post("/upload", async ({ req }: any) => await req.text()),
};

describeServer("a body that is refused", { config, rows: testRows, only: ["dev", "start"] }, (server) => {
  const size = 16 * 1_048_576; // more than the kernel buffers
  const head = (path: string, more: string): string =>
    `${path.startsWith("/workflows") || path === "/doc" ? "GET" : "POST"} ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n${more}\r\n\r\n`;

  it.each([
    ["413", "/test/echo", `Content-Length: ${size}`],
    ["413", "/upload", `Content-Length: ${size}`],
    ["413", "/test/echo", "Transfer-Encoding: chunked"],
    ["404", "/nowhere", `Content-Length: ${size}`],
    ["200", "/workflows", `Content-Length: ${size}`],
    ["200", "/doc", "Transfer-Encoding: chunked"],
  ])("lets a client that sends a whole refused body read the %s of %s (%s)", async (status, path, more) => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    const failed: Error[] = [];
    socket.on("error", (error) => failed.push(error));
    await once(socket, "connect");
    socket.pause();
    const isChunked = more.includes("chunked");
    socket.write(head(path, more));
    const chunk = Buffer.alloc(65_536, 32);
    for (let sent = 0; sent < size && failed.length === 0; sent += chunk.length) {
      if (isChunked) socket.write(`${chunk.length.toString(16)}\r\n`);
      const isFree = socket.write(chunk);
      if (isChunked) socket.write("\r\n");
      if (!isFree) await within(Promise.race([once(socket, "drain"), once(socket, "close")]), "the server to read");
    }
    if (isChunked) socket.write("0\r\n\r\n");
    let text = "";
    socket.setEncoding("utf8").on("data", (part) => (text += part));
    const closed = once(socket, "close");
    socket.resume();
    await within(closed, "the end of the connection");
    expect(failed).toEqual([]);
    expect(text).toMatch(new RegExp(`^HTTP/1.1 ${status} `));
    const [, length, body] = /content-length: (\d+)[^]*?\r\n\r\n([^]*)$/i.exec(text)!;
    expect(Buffer.byteLength(body!)).toBe(Number(length));
  });

  it.each(["/test/echo", "/nowhere", "/workflows"])("cuts a refused body to %s that never ends", async (path) => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {}).resume(); // a reset; `close` follows
    socket.write(head(path, "Transfer-Encoding: chunked"));
    const chunk = Buffer.alloc(65_536, 32);
    for (let sent = 0; !socket.destroyed; sent += chunk.length) {
      expect(sent).toBeLessThan(512 * 1_048_576);
      socket.write(`${chunk.length.toString(16)}\r\n`);
      socket.write(chunk);
      if (socket.write("\r\n") || socket.destroyed) continue;
      const isFree = new Promise<void>((resolve) => {
        for (const event of ["drain", "close"]) socket.once(event, () => resolve());
      });
      await within(isFree, "the server to read or to close");
    }
  });
});

describeServer("an upload that its client aborts", { config, rows: testRows, only: ["dev", "start"] }, (server) => {
  it.each([
    ["/test/echo", "Content-Length: 900"],
    ["/test/echo", "Transfer-Encoding: chunked"],
    ["/upload", "Content-Length: 900"],
    ["/upload", "Transfer-Encoding: chunked"],
  ])("logs no error if a client aborts its upload to %s with %s", async (path, length) => {
    const isIdle = (): boolean => server.snapshot.holders().size === 0;
    await until(isIdle, "the end of other requests");
    server.logs.length = 0;
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n${length}\r\n\r\n`;
    socket.write(`${head}${length.includes("chunked") ? "5\r\n" : ""}{"n":`);
    await until(() => !isIdle(), "the request");
    socket.destroy();
    await until(isIdle, "the end of the request");
    await new Promise(setImmediate);
    expect(server.logs.filter(({ level }) => level !== "debug")).toEqual([]);
  });
});

const refusing = {
  auth: {
    type: "refusing",
    webSockets: true,
    extractToken: () => "token",
    verifyToken(_: string, request?: Request): never {
      const bad = new URL(request!.url).searchParams.get("bad") ?? "";
      const header: [string, string] = bad === "name" ? ["x bad\r\nx-injected", "1"] : ["x-bad", badValues[bad]!];
      throw new ServeError(403, "Refused", { headers: [header] });
    },
  },
};
const badValues: Record<string, string> = {
  lines: "a\r\nx-injected: 1",
  nul: "a\0b",
  wide: "…",
  missing: undefined as never,
};

describeServer("an invalid header of a refusal", { config: refusing, only: ["dev", "start"] }, (server) => {
  it.each(["name", ...Object.keys(badValues)])(
    "does not send an invalid header of a refused upgrade (%s)",
    async (bad) => {
      server.logs.length = 0;
      const answer = await server.raw(
        `GET /ws?bad=${bad} HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n` +
          `Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${Buffer.alloc(16).toString("base64")}\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 500 /);
      expect(answer).not.toContain("x-injected");
      expect(answer).toContain('{"success":false,"error":"Internal server error"}');
      expect(server.logs).toContainEqual(expect.objectContaining({ level: "error" }));
    },
  );
});

it("answers 503 with Retry-After while it is closing", async () => {
  const server = await startServer("in process");
  await server.close();
  const response = await server.send("/workflows", {});
  expect([response.status, response.headers.get("retry-after")]).toEqual([503, "5"]);
});
