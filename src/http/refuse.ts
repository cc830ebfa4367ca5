import { STATUS_CODES } from "node:http";
import type { Duplex } from "node:stream";
import type { Envelope } from "./envelope.ts";

/** Answers on a bare socket and closes it: refused upgrades, and what Node could not parse. */
export function refuse(socket: Duplex, { status, headers, text }: Pick<Envelope, "status" | "headers" | "text">): void {
  if (!socket.writable) return void socket.destroy();
  const lines = [
    `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ""}`,
    ...headers.map(([name, value]) => `${name}: ${value}`),
    `content-length: ${Buffer.byteLength(text)}`,
    "connection: close",
  ];
  // Destroyed, not only ended: a client that keeps its side open would keep ours.
  socket.end(`${lines.join("\r\n")}\r\n\r\n${text}`, () => socket.destroy());
}
