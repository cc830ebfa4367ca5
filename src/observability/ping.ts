import { toObject, tryParseJson } from "../core/json.ts";

/** What a socket that only tells answers to those who talk. */
export function answerPing(text: string): string {
  const message = tryParseJson(text);
  if (message === undefined) return toError("expected JSON");
  if (toObject(message)["type"] === "PING") return JSON.stringify({ type: "PONG", success: true });
  return toError('expected { "type": "PING" }');
}

const toError = (error: string): string => JSON.stringify({ type: "ERROR", success: false, error });
