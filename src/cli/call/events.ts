import { isObject, tryParseJson } from "../../core/json.ts";
import { UserError } from "../../core/user-error.ts";

export interface ServerEvent {
  readonly type: string;
  readonly [key: string]: unknown;
}

/** Yields the events of a `text/event-stream`. Data after the last blank line was cut off and is ignored. */
export async function* readEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  let data: string[] = [];
  let letters = 0;
  for await (const line of toLines(body)) {
    if (line === "" && data.length > 0) {
      yield toEvent(data.join("\n"));
      data = [];
      letters = 0;
    }
    if (!line.startsWith("data:")) continue; // an id, or a heartbeat comment
    data.push(line.slice(line[5] === " " ? 6 : 5));
    letters += line.length;
    if (letters > maxBytes) throw tooLarge();
  }
}

async function* toLines(body: AsyncIterable<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let pieces: string[] = [];
  let letters = 0;
  for await (const bytes of body) {
    const [first = "", ...rest] = decoder.decode(bytes, { stream: true }).split("\n");
    pieces.push(first);
    letters += first.length;
    if (letters > maxBytes) throw tooLarge();
    for (const next of rest) {
      yield pieces.join("").replace(/\r$/, "");
      pieces = [next];
      letters = next.length;
    }
  }
}

function toEvent(text: string): ServerEvent {
  const event = tryParseJson(text);
  if (!isObject(event) || typeof event["type"] !== "string") {
    throw new UserError("The server sent an invalid event: expected JSON with a type", {
      hint: "is this an agentserve server of the same version?",
    });
  }
  return event as ServerEvent;
}

const tooLarge = (): UserError =>
  new UserError("The server sent an event that is larger than 16 MiB", {
    hint: "GET /workflows/<id>/executions/<executionId>/state returns the whole execution",
  });

/** The maximum size of an input, a response or an event: 16 MiB. */
export const maxBytes: number = 16 * 1_024 * 1_024;

/** Returns the text of a stream, or undefined if it has more than `max` bytes. */
export async function readUpTo(
  max: number,
  stream: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): Promise<string | undefined> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of stream) {
    bytes += chunk.length;
    if (bytes > max) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString();
}
