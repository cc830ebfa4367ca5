import { connect } from "node:net";

export interface WireAnswer {
  readonly status: number;
  readonly headers: ReadonlyMap<string, string>;
  readonly text: string;
}

/**
 * Sends bytes over a new connection and reads one response, or until the server closes it. Returns undefined without one.
 * `isCut` ends the client's half of the connection after the bytes. With `isFollowing`, the head of a stream is enough.
 */
export function exchange(
  port: number,
  bytes: Buffer,
  { isCut, isFollowing }: { isCut: boolean; isFollowing: boolean },
): Promise<WireAnswer | undefined> {
  const { promise, resolve } = Promise.withResolvers<WireAnswer | undefined>();
  const chunks: Buffer[] = [];
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true }, () => {
    if (isCut) socket.end(bytes);
    else socket.write(bytes);
  });
  socket.on("data", (chunk: Buffer) => {
    chunks.push(chunk);
    if (isWhole(Buffer.concat(chunks).toString("latin1"), isFollowing)) socket.destroy();
  });
  socket.on("end", () => socket.destroy());
  socket.on("error", () => {}); // a reset after the response; `close` follows
  socket.on("close", () => resolve(parse(Buffer.concat(chunks))));
  return promise;
}

function parse(bytes: Buffer): WireAnswer | undefined {
  const all = bytes.toString("latin1").replace(/^HTTP\/1\.1 100 [^\r]*\r\n\r\n/, "");
  const end = all.indexOf("\r\n\r\n");
  const [first = "", ...lines] = all.slice(0, end).split("\r\n");
  const [, status] = /^HTTP\/1\.1 (\d{3})/.exec(first) ?? [];
  if (end < 0 || !status) return undefined;
  const headers = new Map<string, string>();
  for (const line of lines) {
    const colon = line.indexOf(":");
    headers.set(line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim());
  }
  const body = all.slice(end + 4);
  const whole = headers.get("transfer-encoding") === "chunked" ? unchunk(body) : body;
  return { status: Number(status), headers, text: Buffer.from(whole, "latin1").toString() };
}

/**
 * Returns true for a whole response with a length, and for one without a body. Others end with their connection.
 * A stream that follows what comes may never end: its head is enough.
 */
function isWhole(got: string, isFollowing: boolean): boolean {
  const text = got.replace(/^HTTP\/1\.1 100 [^\r]*\r\n\r\n/, "");
  const end = text.indexOf("\r\n\r\n");
  if (end < 0) return false;
  if (/^HTTP\/1\.1 (101|204|304)/.test(text)) return true;
  if (isFollowing && /^content-type: text\/event-stream/im.test(text.slice(0, end))) return true;
  const [, length] = /^content-length: (\d+)/im.exec(text.slice(0, end)) ?? [];
  return length !== undefined && text.length - end - 4 >= Number(length);
}

function unchunk(body: string): string {
  let text = "";
  for (let at = 0; at < body.length;) {
    const end = body.indexOf("\r\n", at);
    const size = Number.parseInt(body.slice(at, end), 16);
    if (!size) break;
    text += body.slice(end + 2, end + 2 + size);
    at = end + 2 + size + 2;
  }
  return text;
}
