import { toObject, tryParseJson } from "../core/json.ts";

/** Returns the response of a send-only socket to a message. The only valid message is a ping. */
export function answerPing(text: string): string {
  const message = tryParseJson(text);
  if (message === undefined) return toError("expected JSON");
  if (toObject(message)["type"] === "PING") return JSON.stringify({ type: "PONG", success: true });
  return toError('expected { "type": "PING" }');
}

const toError = (error: string): string => JSON.stringify({ type: "ERROR", success: false, error });
