/** What a socket that only tells answers to those who talk. */
export function answerPing(text: string): string {
  try {
    const { type } = (JSON.parse(text) ?? {}) as { type?: unknown };
    if (type === "PING") return JSON.stringify({ type: "PONG", success: true });
    return toError('expected { "type": "PING" }');
  } catch {
    return toError("expected JSON");
  }
}

const toError = (error: string): string => JSON.stringify({ type: "ERROR", success: false, error });
