import { STATUS_CODES, validateHeaderName, validateHeaderValue } from "node:http";
import type { Duplex } from "node:stream";
import type { Envelope } from "./envelope.ts";

/**
 * Writes a response to a raw socket and closes it, for refused upgrades and requests that Node could not parse. Throws,
 * and writes nothing, if a header is invalid: a line break in it would begin another header.
 */
export function refuse(socket: Duplex, { status, headers, text }: Pick<Envelope, "status" | "headers" | "text">): void {
  if (!socket.writable) return void socket.destroy();
  for (const [name, value] of headers) {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  }
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  // Destroy, not only end: a client that keeps its side open would keep ours open.
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}
