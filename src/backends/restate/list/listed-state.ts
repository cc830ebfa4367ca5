import type { JsonText } from "../../../core/json.ts";
import type { ExecutionState, Transition } from "../../../engine/execution.ts";
import { maxListedBytes, toTruncated, toTruncatedText } from "../../../engine/stored/listed-value.ts";

/** The state as a list shows it: markers in place of long values, and the beginning of long texts. */
export function toListed(state: ExecutionState): ExecutionState {
  const { execution, last } = state;
  const contextBytes = Buffer.byteLength(JSON.stringify(execution.context));
  const context = contextBytes > maxListedBytes ? { ...toTruncated(contextBytes) } : execution.context;
  const listed = { ...execution, input: toShort(execution.input) ?? "", context };
  return { ...state, execution: listed, last: last && toListedTransition(last) };
}

function toListedTransition(last: Transition): Transition {
  if (Buffer.byteLength(JSON.stringify(last)) <= maxListedBytes) return last;
  switch (last.to) {
    case "running":
      return { at: last.at, to: "running" };
    case "completed":
      return { ...last, result: toShort(last.result) };
    case "error":
      if ("cancellation" in last) return { ...last, cancellation: { reason: toStart(last.cancellation.reason) } };
      return { ...last, error: { ...last.error, message: toStart(last.error.message) } };
    case "suspended": {
      // Together, the branches get the size of one value.
      const share = Math.floor(maxListedBytes / Math.max(1, last.pending.length));
      const pending = last.pending.map((one) => {
        const data = one.data === undefined ? {} : { data: toShort(one.data, share) };
        return { ...one, reason: toStart(one.reason, share), ...data };
      });
      return { ...last, reason: toStart(last.reason), pending };
    }
  }
}

function toShort(text: JsonText | undefined, max: number = maxListedBytes): JsonText | undefined {
  const bytes = text === undefined ? 0 : Buffer.byteLength(text);
  return bytes > max ? toTruncatedText(bytes) : text;
}

function toStart(text: string, max: number = maxListedBytes): string {
  return Buffer.byteLength(text) > max ? `${text.slice(0, max / 4)}…` : text;
}
